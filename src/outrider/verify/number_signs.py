# ruff: noqa: RUF001 - look-alike characters are the subject of this file
r"""Converts LaTeX, Markdown and Unicode around numbers to a canonical form, without changing the order of the symbols.

The symbols of fractions and roots become single characters (:mod:`outrider.verify.number_value`). Product signs become
``*``, relation signs such as ``\ge`` and ``\in`` become ``≤``, and unknown commands become ``ξ``. Fonts, sizes,
currencies and the exponents of units are removed: the 2 of 5 cm^2, for example, is not a separate number. Arrows,
dashes between statements, and the delimiters of display formulas become line breaks. The conversion takes linear time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from outrider.texts import late_pattern
from outrider.verify.number_value import FRACTION, ROOT
from outrider.verify.number_words import UNITS

_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "₀₁₂₃₄₅₆₇₈₉"
_SCRIPTS = str.maketrans(_RAISED + _LOWERED, "0123456789+-0123456789")
_PARTS = {
    sign: (above, below)
    for sign, above, below in zip("½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞", "112131234151357", "233445555668888", strict=True)
}
DIGITS = (*"0123456789", *_PARTS, *"０１２３４５６７８９")

# Signs of LaTeX, Markdown and Unicode with their canonical forms. The first pattern that matches is used.
_FONTS = (
    "text(?:bf|rm|it|sf|tt|normal|up)?|mbox|hbox|emph|math(?:bf|rm|it|sf|normal)|boldsymbol|bm|boxed|fbox|underline"
)
_SIZES = "left|right|bigl?|bigr?|Bigl?|Bigr?|displaystyle|textstyle|mathstrut|limits|large|Large|huge|Huge"
_RELATIONS = "leq?|geq?|neq?|lt|gt|pm|mp|ll|gg|leqslant|geqslant|in|equiv|cup|cap"
_ARROWS = "to|implies|iff|therefore|because|quad|qquad|(?:long)?(?:right|Right)arrow"
_END = "(?![A-Za-z])"
_TOKENS: tuple[tuple[str, str], ...] = (
    (r"<<[^<>\n]*>>|</?[A-Za-z][\w.:-]{0,20}/?>|<\|[\w ]{1,30}\|>", " "),  # a calculator annotation, a tag
    (rf"\\[dtc]?frac{_END}\s*", FRACTION),
    (rf"\\sqrt{_END}\s*|√\s*|(?<![A-Za-z])sqrt(?=[({{])", ROOT),
    (rf"\\(?:{_SIZES}){_END}|\\!|[\u200b\u2060\ufeff]", ""),
    (rf"\\(?:{_FONTS}){_END}\s*", ""),
    (r"(?<=[$({])[-−]\s+(?=[0-9.\\])", "-"),  # in a formula, a space after a sign has no meaning
    (rf"\s?(?:\\(?:times|cdot|ast){_END}|[×✕⋅·∙])\s?", "*"),
    (r"(?<=[0-9)}]) ?[xX] ?(?=\\?\$?[0-9(])|(?<=[0-9)}])\*(?=[-0-9({\\$])|(?<=\s)\*(?=\s)", "*"),
    (r"(?<=[0-9)}])\*\*(?=[-0-9({])", "^"),
    (
        r"(?:(?<=[2-9][0-9])|(?<=[0-9]{3})|(?<=[.,][0-9])|(?<=[*$}]))!+(?=\s*$|\s*\n|\s+[A-Z]|[\"'”’])",
        "",
    ),  # an exclamation mark, not a factorial
    (r"\*+|`+|(?<![0-9A-Za-z)}\]])_+|_+(?![0-9A-Za-z({])", ""),  # Markdown
    (rf"\\div{_END}|÷|[\u2044\u2215]", "/"),
    (rf"\^\s*(?:\\circ{_END}|\{{\s*\\circ\s*\}}|°)|\\degree{_END}|[°º]", "°"),
    (rf"\\(?:approx|simeq|sim|cong){_END}|[≈~](?=\s*[-$\\0-9])", "="),
    (rf"\\(?:{_RELATIONS}){_END}|[≤≥≠±∓∈≡]|(?<=\s)!=|[<>]=", "≤"),
    (rf"=+>|-+>|[→⇒]|\\(?:{_ARROWS}){_END}", "\n"),
    (r"\\begin\{[pbvBV]?(?:matrix|array)\}(?s:.{0,150}?)\\end\{[pbvBV]?(?:matrix|array)\}", "ξ1"),  # not a number
    (r"\\(?:begin|end)\{[a-z]+\*?\}|\\\\|\\[\[\]]|(?<![0-9])—|—(?![0-9])", "\n"),
    (r"\{,\}|\\,(?=[0-9]{3}(?![0-9]))|[\u2009\u202f\u2008\u00a0](?=[0-9]{3}(?![0-9]))", ","),
    (r"\\[ ,;:>]|~|[\u00a0\u2000-\u200a\u202f\u3000]", " "),
    (r"\\[$€£()&#_]|[$€£¥₹]", ""),
    (r"\\%", "%"),
    (r"\\\{", "("),
    (r"\\\}", ")"),
    (r"\{:\}|：", ":"),
    (r"[−–‐‑－—]", "-"),
    (r"(?:(?<=,)|(?<=, ))(?:\.\.\.|…)|(?:\.\.\.|…)(?=\s?,)|\\[A-Za-z]+|[πΠ∞]", "ξ"),
    (r"\.\.\.|…", "\n"),
    (r"[。！？]", ".\n"),
    (r"[，、；]", ", "),
    (r"[\t ]+", " "),
)
_NO_TOKEN = r"A-WYZa-rt-wyz0-9,;?\"'/()\[\]|@+"  # no token begins with these, so most text is skipped at once
_TOKEN = late_pattern(
    f"(?=[^{_NO_TOKEN}])(?:"
    + "|".join(f"(?P<t{i}>{pattern})" for i, (pattern, _) in enumerate(_TOKENS))
    + f"|(?P<script>[{_RAISED}]+|[{_LOWERED}]+)|(?P<part>[{''.join(_PARTS)}])|(?P<wide>[０-９]))"
)
_LONG = "|".join(unit for unit in UNITS if len(unit) > 1)
_UNIT = (  # a one-letter unit counts only after a space, a font or a slash, since 3s^2 is a product
    rf"(?:(?<![A-Za-z_\\])(?:{_LONG})|(?<=g\*)[ms]|(?<=[mg] )[ms](?=\}}?\^\{{?-)|"
    rf"(?<=[/{{])[ms]|(?<=[0-9}}] )m|(?<=\{{ )m|[a-z]{{3,}}(?=\}}))\}}?"
)
_UNIT_POWER = late_pattern(rf"{_UNIT}\s?\^\s?(?:\{{-?[23]\}}|-?[23])(?![0-9])")


class Canonical(NamedTuple):
    """A text in canonical form, with the start and end of each character in the original text."""

    text: str
    starts: list[int]
    ends: list[int]


def canonical(text: str) -> Canonical:
    """Return the canonical form of a text.

    >>> canonical("is **7,000** or $3 · 4$").text, canonical("5 cm^2 or 2").text
    ('is 7,000 or 3*4', '5 cm or 2')
    """
    signs: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    def add(text: str, start: int, end: int) -> None:
        signs.append(text)
        starts.extend([start] * len(text))
        ends.extend([end] * len(text))

    def keep(start: int, end: int) -> None:
        signs.append(text[start:end])
        starts.extend(range(start, end))
        ends.extend(range(start + 1, end + 1))

    at = 0
    for match in _TOKEN.finditer(text):
        keep(at, match.start())
        add(_plain(match), match.start(), match.end())
        at = match.end()
    keep(at, len(text))
    whole = "".join(signs)
    for power in reversed(list(_UNIT_POWER.finditer(whole))):  # the 2 in 5 cm^2 is not a separate number
        low, high = whole.index("^", power.start()), power.end()
        whole = whole[:low] + whole[high:]
        del starts[low:high], ends[low:high]
    return Canonical(whole, starts, ends)


def _plain(match: re.Match[str]) -> str:
    """Return the canonical form of a matched symbol."""
    kind, found = match.lastgroup or "", match[0]
    if kind == "script":
        return f"{'^' if found[0] in _RAISED else '_'}{{{found.translate(_SCRIPTS)}}}"
    if kind == "part":
        return "{}{{{}}}{{{}}}".format(FRACTION, *_PARTS[found])
    if kind == "wide":
        return chr(ord(found) - 0xFEE0)
    return _TOKENS[int(kind[1:])][1]
