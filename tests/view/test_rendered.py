"""Markdown and formulas of a response: drawn, and nothing in them can run or load."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from outrider.view.rendered import rendered

ALLOWED = {
    *("p", "br", "hr", "strong", "em", "code", "pre", "blockquote", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "span", "div", "section", "eqn"),
}
MATHML = {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot"}
MATHML |= {"mtable", "mtr", "mtd", "mover", "munder", "munderover", "mstyle", "mpadded", "mphantom", "menclose"}


class Tags(HTMLParser):
    """The tags and attributes of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def safe(text: str) -> bool:
    for tag, attributes in Tags(text).tags:
        if tag not in ALLOWED and tag not in MATHML:
            return False
        for name, value in attributes:
            if name.startswith("on") or name in ("href", "src", "srcset", "action", "xlink:href"):
                return False
            if name == "style" and "text-align" not in str(value):  # a column of a table
                return False
    return True


HURTS = [
    HOSTILE.replace("\ud800", ""),
    "[a](javascript:hurt=1) ![b](https://e.vil/x.png) <https://e.vil> https://e.vil",
    "[a]: javascript:hurt\n\n[a]",
    r"$\href{javascript:hurt}{x}$ $\style{x:expression(1)}{y}$ $\class{a}{b}$",
    "$</math><script>hurt</script>$",
    r"$\verb|<style>.outcome{display:none}</style>|$ $\text{<script>x</script>}$ $\text{<plaintext></plaintext>}$",
    "<svg/onload=hurt> <iframe src=x> <a href=x>",
    "```<script>\nhurt\n```",
    "|a|b|\n|:-|-:|\n|<script>|2|",
]


@pytest.mark.parametrize("text", HURTS)
def test_nothing_can_run_or_load(text: str) -> None:
    assert safe(str(rendered(text)))


PARTS = st.sampled_from(
    [
        *("<script>", "</script>", "$", "$$", r"\(", r"\)", "[x](y)", "![x](y)", "`", "```", "\n", "\n\n", *"*_|-"),
        *("#", r"\frac{1}{2}", r"\href{a}{b}", *"{}^&\"'<>=a \\", "on", "javascript:"),
    ]
)


@given(parts=st.lists(PARTS, max_size=40))
def test_no_mixture_of_marks_can(parts: list[str]) -> None:
    assert safe(str(rendered("".join(parts))))


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (r"so $\frac{1}{2}$", {"math", "mfrac"}),
        (r"so \(x^2\) and \[\sqrt{3}\]", {"msup", "msqrt"}),
        (r"the answer is $\boxed{42}$", {"math"}),
        ("**b** and\n\n- one\n- two", {"strong", "ul", "li"}),
        ("|a|\n|-|\n|1|", {"table", "td"}),
        ("```python\nx = 1\n```", {"pre", "code"}),
    ],
)
def test_what_is_drawn(text: str, tags: set[str]) -> None:
    assert tags <= {tag for tag, _ in Tags(str(rendered(text))).tags}


def test_what_is_no_formula_stays_as_it_was_written() -> None:
    shown = "".join(Tags(str(rendered(r"costs $\notacommand{$ and 5 dollars"))).texts)
    assert r"\notacommand{" in shown
    assert "5 dollars" in shown


def test_a_very_long_text_is_shown_as_it_was_written() -> None:
    text = "**a** " * 50_000
    assert str(rendered(text)) == f"<pre>{text}</pre>"
