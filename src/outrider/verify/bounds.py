r"""Joins two bounds into one inequality: ``x \ge 2 \text{ and } x \le 5`` becomes ``2 \le x \le 5``.

The bounds may also be separated by a comma, as in ``x > 2, x < 5``. They are joined only if the number of the lower
bound is smaller than the number of the upper bound. Otherwise, the text stays unchanged: ``x < 2, x > 5`` describes a
union. The code is pure Python.
"""

from __future__ import annotations

from outrider.texts import late_pattern
from outrider.verify.answers import number
from outrider.verify.typography import TEXT

_SIGN = r"(\\[gl](?:eqslant|eq|e|t)(?![A-Za-z])|[<>]=?)"
_NUMBER = r"([-+]?\s*(?:[0-9.]+(?:/[0-9]+)?|\\frac\{[0-9]+\}\{[0-9]+\}))"
_AND = rf"\s*(?:,\s*(?:and\b)?|\band\b|,?\s*{TEXT}\s*\{{\s*,?\s*and\s*\}}|\\land(?![A-Za-z])|\\wedge(?![A-Za-z]))\s*"
_BOUND = rf"(?:([A-Za-z])\s*{_SIGN}\s*{_NUMBER}|{_NUMBER}\s*{_SIGN}\s*([A-Za-z]))"
_TWO = late_pattern(rf"\s*{_BOUND}{_AND}{_BOUND}[\s.]*")


def as_one(text: str) -> str:
    r"""Rewrite a text that consists of two bounds as one inequality; return any other text unchanged.

    >>> as_one(r"x < 5 \text{ and } x \ge 2"), as_one("2 < x, x < 5"), as_one("x < 2, x > 5")
    ('2 \\le  x < 5', '2 < x < 5', 'x < 2, x > 5')
    """
    found = _TWO.fullmatch(text)
    if found is None:
        return text
    first, second = _bound(*found.groups()[:6]), _bound(*found.groups()[6:])
    if first[0] != second[0] or first[1] == second[1]:
        return text
    lower, upper = (first, second) if first[1] else (second, first)
    low, high = number(lower[3]), number(upper[3])
    if low is None or high is None or low >= high:
        return text
    return f"{lower[3]} {lower[2]} {lower[0]} {upper[2]} {upper[3]}"


def _bound(*parts: str | None) -> tuple[str, bool, str, str]:
    """Return a bound's variable, whether it is a lower bound, its relation ("less" or "less or equal") in LaTeX, and
    its number."""
    letter, sign, value = parts[:3] if parts[0] else (parts[5], parts[4], parts[3])
    less = (sign or "").lstrip("\\")[:1] in ("l", "<")
    equal = "e" in (sign or "") or "=" in (sign or "")
    return letter or "", less is not bool(parts[0]), "\\le " if equal else "<", value or ""
