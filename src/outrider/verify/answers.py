r"""Compares final answers as text or as exact numbers. The code is pure Python, runs in linear time, and never raises
an exception.

This module does no algebra: ``\frac{1}{2}`` equals ``0.5`` as a number, but ``x+1`` never equals ``1+x``.
"""

from __future__ import annotations

import re
from collections import deque
from fractions import Fraction
from typing import Literal

from outrider.record import Verdict, correct, incorrect, unparseable
from outrider.texts import box_spans, late_pattern
from outrider.verify import units
from outrider.verify.answer_lines import is_heading
from outrider.verify.number_text import last_expression
from outrider.verify.typography import FONT, TEXT, plain

Match = Literal["exact", "number"]

LONGEST = 1000  # maximum characters of an answer; gold answers of common maths data sets have up to about 200
LONGEST_NUMBER = 100  # maximum characters of a number; a longer string of digits is not a final answer
LARGEST_EXPONENT = 300  # maximum exponent of ten; 1e300 is computed exactly, but 1e10000000000 would never finish
LONGEST_SHOWN = 200  # maximum characters of an answer that are kept in the verdict

_DIGITS = r"(?:(?!0)[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|(?!0)[0-9]{1,3}(?: [0-9]{3})+(?![0-9 ])|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE](?:-?[0-9]+|\+[0-9]{{2,}}))?"
_RATIO = late_pattern(rf"(?:[A-Za-z]=)?([-+]?)(?:([0-9]+) (?=[0-9]+/))?({_DECIMAL})(?:/({_DIGITS}))?%?")
_LATEX_RATIO = late_pattern(rf"(?:[A-Za-z]=)?([-+]?)([0-9]+)?\\frac\{{([-+]?{_DECIMAL})\}}\{{({_DIGITS})\}}%?")
_AND = late_pattern(rf"[,;]|\b(?:and|or)\b|{TEXT}\{{[^{{}}]*\b(?:and|or)\b[^{{}}]*\}}")
_GLUE = late_pattern(r"\s+|[$&]|\\[()\[\]:;, ]|\\q?quad(?![A-Za-z])|[A-Za-z]\w*\s*=\s*(?=\\+(?:boxed|fbox)\s*\{$)")
LONGEST_GLUE = 80  # maximum characters between two boxes that together form one answer
_FONTED = late_pattern(rf"{FONT}\s*\{{([^{{}}]*)\}}")
_LIST = late_pattern(r"[0-9] ?, [0-9]|[0-9] ,[0-9]")  # 81, 256 is not 81256
_REPEATING = late_pattern(r"([0-9]*)\.([0-9]*)\\(?:overline|bar|dot)\{([0-9]+)\}")
_NEEDLESS_SPACE = late_pattern(r"(?<![0-9]) | (?![0-9])")  # a space between two digits has a meaning: 1 1/2 is not 11/2


def last_box(text: str) -> str | None:
    r"""Return the content of the last closed ``\boxed{…}``, or None. Escaped braces do not count as braces.

    Boxes are ordered by their closing brace, so the outer one of two nested boxes is returned.

    >>> last_box(r"first \boxed{1}, then \boxed{\frac{1}{2}}, then \boxed{3")
    '\\frac{1}{2}'
    """
    last = deque(box_spans(text), maxlen=1)
    return text[slice(*last[0])] if last else None


def boxes(text: str) -> list[str]:
    r"""Return the contents of all closed ``\boxed{…}`` in order, except boxes inside another box.

    >>> boxes(r"\boxed{1} or \boxed{x + \boxed{2}}, not \boxed{3")
    ['1', 'x + \\boxed{2}']
    """
    return [text[slice(*box)] for box in _outer(text)]


def _outer(text: str) -> list[tuple[int, int]]:
    outer: list[tuple[int, int]] = []
    for begin, end in box_spans(text):
        while outer and outer[-1][0] > begin:
            outer.pop()
        outer.append((begin, end))
    return outer


def last_number(text: str) -> str | None:
    r"""Return the last number of a text, with the whole expression around the number; None if there is no number.

    >>> last_number("It needs 2 2/3 cups."), last_number(r"so $\frac{3}{4}$"), last_number("none")
    ('2 2/3', '\\frac{3}{4}', None)
    """
    found = last_expression(text)
    return None if found is None else found.text


def last_boxes(text: str) -> list[str]:
    r"""Return the content of the last closed box, preceded by the contents of boxes that are joined to it by "and" or a
    comma.

    >>> last_boxes(r"\boxed{1}. So $\boxed{2}$, $\boxed{3}$ and $y = \boxed{4}$.")
    ['2', '3', '4']
    """
    outer = _outer(text)
    first = len(outer) - 1
    while first > 0 and _glued(text[outer[first - 1][1] + 1 : outer[first][0]]):
        first -= 1
    return [text[slice(*box)] for box in outer[max(first, 0) :]]


def _glued(between: str) -> bool:
    """Return whether the text between two boxes joins them into one answer. The text may be empty, a comma or "and", or
    "and" with a noun, such as "boys and"."""
    if len(between) > LONGEST_GLUE:
        return False
    rest = _AND.sub(" ", between)
    words = _GLUE.sub(" ", rest).removesuffix("{").split()[:-1]  # the last word is the command of the next box
    a_noun = len(words) == 1 and words[0].isalpha() and re.search(r"\band\b", between)
    return bool(not words or a_noun) and (rest != between or "\n" not in between)


def extract(text: str, finished: bool = True) -> str | None:
    r"""Return the final answer of a response as text, or None.

    The answer is the last closed ``\boxed{…}``. If there is no box, the answer is the rest of the line after the last
    ``####``. If there is neither, the answer is the last number with the whole expression around it. In a truncated
    response, only a closed box counts: the last number may be incomplete, and earlier numbers are intermediate results.

    >>> extract("so 3 + 4 = 7"), extract("3 + 4 = 7\n#### 7 eggs"), extract("3 + 4 =", finished=False)
    ('7', '7 eggs', None)
    """
    if (stated := _stated(text, finished)) is not None or not finished:
        return stated
    return last_number(text)


def _stated(text: str, finished: bool) -> str | None:
    """Return the answer that a response marks with a box or with ``####``."""
    if (box := last_box(text)) is not None and box.strip():
        return box.strip()
    if not finished:
        return None
    _, marker, after = text.rpartition("####")
    line, _, below = after.strip().partition("\n")
    return None if not marker or (below and is_heading(line)) else line.strip() or None


def normalise(answer: str) -> str:
    r"""Remove notation that does not affect the meaning of an answer, such as spacing, ``$``, ``\left``, ``\dfrac``,
    ``\text`` and a final full stop.

    >>> normalise(r" $\left( 3, \dfrac{\pi}{2} \right)$. "), normalise(r"\frac12 \text{ or more}")
    ('(3,\\frac{\\pi}{2})', '\\frac{1}{2}ormore')
    """
    return _NEEDLESS_SPACE.sub("", _FONTED.sub(r"\1", plain(answer))).rstrip(".\\")


def number(answer: str) -> Fraction | None:
    r"""Return the exact value of an answer that is one number, otherwise None.

    A number may have a sign, thousands commas, decimals, an exponent and a leading ``x=``. It may also be a fraction,
    ``a/b`` or ``\frac{a}{b}``, or a mixed number such as 1 1/2. A currency sign, a percent sign and a unit
    (:mod:`outrider.verify.units`) are ignored: 50\% is read as 50, as in the answer keys of maths data sets. A list
    such as ``81, 256`` is not one number. The result is also None if the answer has more than ``LONGEST_NUMBER``
    characters, an exponent above ``LARGEST_EXPONENT``, or a zero denominator. The limits on length and exponent keep
    the time within microseconds.

    >>> number("$1,000.50"), number(r"\dfrac{-1}{2}"), number("7 eggs"), number("1e10000000000")
    (Fraction(2001, 2), Fraction(-1, 2), Fraction(7, 1), None)
    """
    if len(answer) > LONGEST_NUMBER:
        return None
    quantity, _ = units.split(plain(answer))
    if _LIST.search(quantity):
        return None
    text = repeating(normalise(quantity)).replace("\\%", "%")
    match = _RATIO.fullmatch(text) or _LATEX_RATIO.fullmatch(text)
    if match is None:
        return None
    sign, whole, above, below = match.groups()
    mantissa, _, exponent = above.replace(",", "").replace(" ", "").lower().partition("e")
    if exponent and abs(int(exponent)) > LARGEST_EXPONENT:
        return None
    denominator = Fraction((below or "1").replace(",", "").replace(" ", ""))
    if not denominator:
        return None
    if whole and above[0] in "+-":
        return None
    value = int(whole or 0) + Fraction(mantissa) * Fraction(10) ** int(exponent or 0) / denominator
    return -value if sign == "-" else value


def repeating(text: str) -> str:
    r"""Rewrite the repeating decimals in a text as fractions.

    >>> repeating(r"0.\overline{3}"), repeating(r"-1.2\overline{45}x")
    ('\\frac{3}{9}', '-\\frac{1233}{990}x')
    """
    return _REPEATING.sub(_fraction_of, text)


def _fraction_of(match: re.Match[str]) -> str:
    whole, fixed, period = match[1] or "0", match[2], match[3]
    above = int(whole + fixed + period) - int(whole + fixed)
    return rf"\frac{{{above}}}{{{10 ** len(fixed) * (10 ** len(period) - 1)}}}"


def verify_text(gold: str, text: str, finished: bool = True, match: Match = "exact") -> Verdict:
    r"""Compare the final answer of a response with the gold answer.

    With ``match="exact"``, the answers must be equal strings after :func:`normalise`. With ``match="number"``, the
    values must be equal in exact arithmetic, so 0.33 is not 1/3, and an answer that is not a number is incorrect. If a
    finished response has neither ``\boxed{…}`` nor ``####``, the answer is its last numeric expression, such as 2 2/3
    (:mod:`outrider.verify.number_text`). A response without an answer is unparseable.

    Raises:
        ValueError: ``match`` is ``number`` and the gold answer is not a number.

    >>> verify_text("1000", "#### 1,000.0", match="number").success, verify_text("1000", "#### 1,000.0").success
    (True, False)
    """
    stated, said = _stated(text, finished), None
    if stated is None and finished:
        said = last_expression(text)
    answer = said.text if said is not None else stated
    if answer is None:
        return unparseable("no final answer" if finished else "truncated before a final answer")
    short = shown(answer)
    if match == "exact":
        return correct(short) if normalise(answer) == normalise(gold) else incorrect(short)
    right = whole_number(gold)
    if right is None:
        raise ValueError(f"the gold answer {gold!r} is not a number")
    value = whole_number(answer) if said is None else said.value
    if value is None:
        return incorrect(short, "not a number")
    return correct(short) if value == right else incorrect(short)


def whole_number(answer: str) -> Fraction | None:
    r"""Return the exact value of an answer that is one number and nothing else, otherwise None.

    In addition to the forms that :func:`number` reads, the answer may have powers, factorials, roots with exact values,
    and products with powers of ten. Words may come before the number ("The answer is"), and any unit after it.

    >>> whole_number("$7 per hour"), whole_number("The answer is 8."), whole_number(r"1.5 \times 10^{3}")
    (Fraction(7, 1), Fraction(8, 1), Fraction(1500, 1))
    >>> whole_number("2 or 3"), whole_number("x_2"), whole_number("3 boys and 4 girls")
    (None, None, None)
    """
    if (value := number(answer)) is not None or len(answer) > LONGEST:
        return value
    found = last_expression(answer)
    return found.value if found is not None and found.alone else None


def shown(answer: str) -> str:
    """Shorten an answer for the verdict, and make it valid UTF-8, since a response may contain lone surrogates."""
    return answer[:LONGEST_SHOWN].encode("utf-8", "replace").decode("utf-8")
