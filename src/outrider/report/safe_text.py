"""Makes model output safe for an HTML page, so that the output is shown but never executed."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from markupsafe import Markup, escape


def visible(text: str) -> str:
    r"""Replace control characters with visible symbols, since garbled rollouts contain many of them and HTML would drop
    them.

    >>> visible("a\x00\tb\n\x1b[0m")
    'a␀\tb\n␛[0m'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda match: chr(0x2400 + min(ord(match[0]), 0x21)), text)


def prose(text: str) -> Markup:
    r"""Escape a text, mark names in backticks as code, and split the text into paragraphs at blank lines.

    >>> prose("raise `n` <now>")
    Markup('raise <code>n</code> &lt;now&gt;')
    """
    code = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(visible(text))))
    paragraphs = [part for part in re.split(r"\n\s*\n", code.strip()) if part]
    return Markup("</p><p>".join(paragraphs))


def in_script(data: Any) -> Markup:
    r"""Return JSON that is safe in a ``<script>``: plain ASCII, without characters that could close the element.

    >>> in_script({"a": "</script>\u2028", "b": float("nan"), "c": 1 / 3})
    Markup('{"a":"\\u003c/script\\u003e\\u2028","b":null,"c":0.333333}')
    """
    text = json.dumps(_short(data), separators=(",", ":"), allow_nan=False)
    return Markup(re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    if hasattr(value, "item"):  # NumPy scalars
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None  # a screen has fewer than 10^6 pixels
    if isinstance(value, str):
        return visible(value.encode("utf-8", "replace").decode())
    return value
