# ruff: noqa: RUF001, RUF002 - look-alike characters are the subject of this file
r"""Converts notation that differs only in typesetting or Unicode characters to one plain form.

The conversion unifies fonts, spaces, bracket sizes, ``√`` and ``\sqrt``, ``x_1`` and ``x_{1}``, and backslashes that
were escaped twice, as in JSON inside JSON. It does not change the meaning of a text. The code is pure Python, runs in
linear time, and never raises an exception.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import normalize

from outrider.texts import late_pattern
from outrider.verify import east_asian

TEXT = r"\\(?:text(?:bf|rm|it|sf|tt|normal|up)?|mbox|hbox|emph)"
FONT = rf"(?:{TEXT}|\\(?:math(?:bf|rm|it|sf|normal)|boldsymbol|bm))"

MOST_KEPT = 1000  # maximum characters of a text whose plain form is cached

_GREEK = "alpha beta gamma delta epsilon theta lambda mu pi sigma phi omega Delta Omega"
_FRACTIONS = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_SIGNS = {
    **{sign: rf"\{name} " for sign, name in zip("αβγδεθλμπσφωΔΩ", _GREEK.split(), strict=True)},
    **{sign: r"\frac{{{}}}{{{}}}".format(*normalize("NFKC", sign).split("\u2044")) for sign in _FRACTIONS},
    **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " "),
    **dict.fromkeys("\u200b\ufeff€£¥", ""),
    "\u2212": "-",
    "–": "-",
    "—": "-",
    "×": r"\times ",
    "⋅": r"\cdot ",
    "·": r"\cdot ",
    "÷": r"\div ",
    "±": r"\pm ",
    "∓": r"\mp ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\neq ",
    "≈": r"\approx ",
    "∈": r"\in ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∅": r"\emptyset ",
    "∞": r"\infty ",
    "°": r"^\circ ",
    "º": r"^\circ ",
    "′": "'",
    "″": "''",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "∠": r"\angle ",
    "…": r"\ldots ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "\u2044": "/",
    "\u2215": "/",
    "\u2010": "-",
    "\u2011": "-",
    "\u3001": ", ",
    "\u3002": ".",
    "∇": r"\nabla ",
    **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)},  # full-width characters
}
_SIGN = str.maketrans(_SIGNS)
_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "₀₁₂₃₄₅₆₇₈₉"
_PLAIN_RAISED, _PLAIN_LOWERED = str.maketrans(_RAISED, "0123456789+-n"), str.maketrans(_LOWERED, "0123456789")
_SCRIPTS = late_pattern(f"[{_RAISED}]+|[{_LOWERED}]+")
_ROOT = late_pattern(
    r"(?:√|(?<![\\A-Za-z])sqrt(?=\s*[({]))\s*(?:\(([^(){}]*)\)|\{([^{}]*)\}|([0-9.]+|[A-Za-z]|\\[A-Za-z]+))?"
)
_ESCAPED_ROOT = late_pattern(r"(?<!\\)((?:\\\\)*)\\√")  # drops the backslash; a double backslash ends a row instead
_ROOT_OF_LETTER = late_pattern(rf"\\sqrt\s*(\\(?:{'|'.join(_GREEK.split())})(?![A-Za-z]))")
_TWICE = late_pattern(
    r"(?<!\\)\\\\(?=(?:[dtc]?frac|left|right|sqrt|pi|text|cdot|times|leq?|geq?|neq|infty|cup|cap|in|pm|quad|circ|boxed|begin"
    r"|end|lfloor|rfloor|lceil|rceil|theta|alpha|beta|log|ln|sin|cos|tan|angle|quad)(?![A-Za-z])|[{}%$])"
)
_NOTHING = late_pattern(
    r"(?<!\\)\\[,!]|\\?\$|\\(?:left|right|bigl|bigr|Bigl|Bigr|big|Big|displaystyle|textstyle|limits|mathstrut)(?![A-Za-z])"
    r"|\\(?:large|Large|huge|Huge)(?![A-Za-z])|\\(?:text)?color\s*\{[A-Za-z]+\}"
)
_THIN = late_pattern(r"(?<=[A-Za-z}])\\,(?=\s*[A-Za-z\\])")  # a thin space between factors, as in m\,s
_VARIANT = late_pattern(r"\\var(epsilon|phi|rho|sigma|kappa)(?![A-Za-z])")
_BARE_BINOMIAL = late_pattern(r"\\([dt]?binom)(?![A-Za-z])\s*(\{[^{}]*\}|[0-9A-Za-z])\s*(\{[^{}]*\}|[0-9A-Za-z])")
THOUSANDS = late_pattern(r"(?<=[0-9])(?:,\s*\\!\s*|\{,\}\s*)(?=[0-9]{3}(?![0-9]))")  # 1,\!000 is not a list
_EMPTY = late_pattern(rf"{TEXT}\s*\{{[\s.]*\}}")
_SPACES = late_pattern(r"(?<!\\)\\(?:[;:> ]|q?quad|enspace|thinspace|hspace\{[^{}]*\})|~|\s+")
_BOXED = late_pattern(r"\\(?:fbox|framebox|underline|ensuremath)\s*\{([^{}]*)\}")
_TAKEN = r"(?:[0-9](?![0-9])|[A-Za-z](?![A-Za-z])|\\pi(?![A-Za-z]))"
_SHORT_FRACTION = late_pattern(
    rf"\\[dtc]?frac(?![A-Za-z])\s*(?:([0-9]|[A-Za-z]|\\pi(?![A-Za-z]))\s*(?:({_TAKEN})|(?=\{{)))?"
)
_INDEX = late_pattern(r"(?<=[A-Za-z}])_\s*([0-9A-Za-z])")
_PERCENT = late_pattern(
    rf"\s*(?:{TEXT}\s*\{{\s*(?:per ?cent(?:age)?|pct|\\?%)\s*\}}|(?<![A-Za-z])(?:per ?cent(?:age)?|pct))\s*$"
)
_DOTS = late_pattern(r"\\(?:dots[cbmio]?|cdots)(?![A-Za-z])")
_MODULUS = late_pattern(r"\\pmod\s*([0-9A-Za-z]+)")
_COUNTED = late_pattern(rf"{TEXT}\s*\{{\s*([-+]?[0-9][0-9.,/]*)\s+([A-Za-z][^{{}}]*)\}}[.\s]*")  # \text{5 apples}
_DEGREE = late_pattern(r"\\degree(?![A-Za-z])")


def plain(text: str) -> str:
    r"""Return a text in the plain form that the module describes, with single spaces.

    >>> plain("3√2 – π², \\left(x₁\\right)"), plain(r"11,\! 111{,}111 \dfrac12")
    ('3\\sqrt{2} - \\pi ^{2}, (x_{1})', '11,111,111 \\frac{1}{2}')
    """
    return _kept(text) if len(text) <= MOST_KEPT else _plain(text)


@lru_cache(4096)  # cached, since each step of a comparison needs the plain form
def _kept(text: str) -> str:
    return _plain(text)


def _plain(text: str) -> str:
    if not text.isascii():
        text = _ESCAPED_ROOT.sub(r"\1 √", _SCRIPTS.sub(_script, text).translate(_SIGN))
    text = _DEGREE.sub(r"^\\circ ", _THIN.sub(" ", _TWICE.sub(r"\\", text)))
    if "\\var" in text or "binom" in text:
        text = _BARE_BINOMIAL.sub(_binomial, _VARIANT.sub(r"\\\1", text))
    if "√" in text or "sqrt" in text:
        text = _ROOT_OF_LETTER.sub(r"\\sqrt{\1}", _ROOT.sub(_root, text))
    text = THOUSANDS.sub(",", text).replace("{,}", ",").replace("{:}", ":")
    text = _MODULUS.sub(r"\\pmod{\1}", _DOTS.sub(r"\\ldots", text)) if "\\" in text else text
    text = _PERCENT.sub(r"\\%", _EMPTY.sub(" ", text).rstrip(". "))
    if counted := _COUNTED.fullmatch(text):
        text = rf"{counted[1]}\text{{ {counted[2]}}}"
    text = " ".join(_SPACES.sub(" ", _NOTHING.sub("", text)).split())
    if not text.isascii() and east_asian.ANY.search(text):
        text = east_asian.plain_words(text)
    return _SHORT_FRACTION.sub(_fraction, _INDEX.sub(r"_{\1}", _BOXED.sub(r"\1", text)))


def _script(match: re.Match[str]) -> str:
    raised = match[0][0] in _RAISED
    return f"^{{{match[0].translate(_PLAIN_RAISED)}}}" if raised else f"_{{{match[0].translate(_PLAIN_LOWERED)}}}"


def _root(match: re.Match[str]) -> str:
    under = next((group for group in match.groups() if group is not None), None)
    if under is None:  # for nested brackets, outrider.verify.names uses the function's name
        return "sqrt" if match.string.startswith("(", match.end()) else r"\sqrt"
    return rf"\sqrt{{{_ROOT.sub(_root, under)}}}"


def _binomial(match: re.Match[str]) -> str:
    above, below = (part.strip("{}") for part in match.groups()[1:])
    return rf"\{match[1]}{{{above}}}{{{below}}}"


def _fraction(match: re.Match[str]) -> str:
    above, below = (f"{{{part}}}" if part else "" for part in match.groups())
    return rf"\frac{above}{below}"
