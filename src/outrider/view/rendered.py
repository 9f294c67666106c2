r"""Renders the Markdown and the formulas of a response as HTML that can neither run code nor load anything.

HTML, links and images in Markdown are shown as text, so that a page makes no requests. Formulas in ``$``, ``$$``,
``\(`` or ``\[`` become MathML, which browsers render natively. A formula that cannot be parsed is shown as source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup, escape

from outrider.report.safe_text import visible

_LONGEST = 50_000  # maximum characters to render; longer texts are shown as plain text
_FORMULA = 2_000
_MATHML = "http://www.w3.org/1998/Math/MathML"
_KEPT = {"display", "mathvariant", "stretchy", "fence", "form", "columnalign", "lspace", "rspace", "linethickness"}
_TAGS = {
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot"),
    *("mtable", "mtr", "mtd", "mover", "munder", "munderover", "mstyle", "mpadded", "mphantom", "menclose"),
}
_DEFINES = re.compile(r"\\(?:new|renew|def|Declare)")  # macro expansion may grow without bound
_BRACKETS = (
    (re.compile(r"\\\[(.{1,2000}?)\\\]", re.DOTALL), r"$$\1$$"),
    (re.compile(r"\\\((.{1,2000}?)\\\)"), r"$\1$"),
)


def rendered(text: str) -> Markup:
    r"""Return a response's text as safe HTML.

    >>> rendered("**so** <b>"), "<msup><mi>x</mi><mn>2</mn></msup>" in rendered("$x^2$")
    (Markup('<p><strong>so</strong> &lt;b&gt;</p>\n'), True)
    """
    if len(text) > _LONGEST:
        return Markup("<pre>{}</pre>").format(visible(text))
    for brackets, dollars in _BRACKETS:
        text = brackets.sub(dollars, text)
    return Markup(_markdown().render(visible(text)))


@lru_cache(maxsize=1)
def _markdown() -> Any:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    reader = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    reader.disable(["image", "link", "autolink", "reference", "html_block", "html_inline"])
    return reader.use(dollarmath_plugin, allow_labels=False, renderer=_mathml, double_inline=True)


def _mathml(source: str, options: dict[str, Any]) -> str:
    """Return a formula as MathML. If the formula cannot be converted, return its source as code."""
    whole = bool(options.get("display_mode"))
    try:
        if len(source) > _FORMULA or _DEFINES.search(source):
            raise ValueError("too long")
        tree = ElementTree.fromstring(_convert()(source, display="block" if whole else "inline"))
    except Exception:  # noqa: BLE001 - a LaTeX parser may raise anything on invalid model output
        return f"<code>{escape(source)}</code>"
    if any(element.tag.rpartition("}")[2] not in _TAGS for element in tree.iter()):
        return f"<code>{escape(source)}</code>"  # latex2mathml passes through the content of \\text
    for element in tree.iter():
        for name in [name for name in element.attrib if name not in _KEPT]:
            del element.attrib[name]
    ElementTree.register_namespace("", _MATHML)
    return ElementTree.tostring(tree, encoding="unicode")


@lru_cache(maxsize=1)
def _convert() -> Callable[..., str]:
    from latex2mathml.converter import convert

    return convert
