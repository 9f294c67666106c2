# ruff: noqa: RUF001 - look-alike characters
r"""Finds the last numeric expression of a text: all of 2 2/3, for example, not only the 3.

The text is first converted to a form without LaTeX, Markdown and Unicode variants
(:mod:`outrider.verify.number_signs`). Words divide the converted text into segments. In the last segment with a digit,
only the part after the last line break, end of a sentence, colon or ``=`` is used. This part is read as a whole,
together with words beside it that change the value: ``5 million``, ``2 and 2/3``, ``negative 7``. An expression that is
not a number has no value: a date, a pair such as ``(1, 2)``, ``3 or 4``, or ``x_2``. Only the text around the last
digit is read, so the time does not grow with the length of the text.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from outrider.texts import late_pattern
from outrider.verify import units
from outrider.verify.number_signs import DIGITS, canonical
from outrider.verify.number_value import FRACTION, ROOT, value_of
from outrider.verify.number_words import (
    CURRENCIES,
    FUNCTIONS,
    JOINING,
    LEADING,
    MONTHS,
    NEGATING,
    NO_LONGER,
    ORDINALS,
    PARTS,
    SCALES,
    UNITS,
    east_asian_scale,
    one_quantity,
)

BEFORE, BEHIND = 240, 80  # maximum characters that are read before and after the last digit
_WORD = late_pattern(r"[^\W\d_]+(?:['’][a-z]+)?|ξ")
_BREAK = late_pattern(r"\n|;(?![^()\[\]]{0,60}[)\]])|[.?]+(?=\s|$|[A-Z])|(?<=[^0-9\s]):|(?<=[0-9]):(?=\s)")
_HAS_DIGIT = re.compile(r"[0-9]")
_LEFT_EDGE, _RIGHT_EDGE = " \n,:;?\"'“”’|#&>*/_%)}]", " \n.,:;?\"'“”’|#&*/_+-^({["
_ONE_UNKNOWN = late_pattern(r"[^A-Za-zξ]*[a-fi-kn-rt-z][^A-Za-zξ]*")  # g, h, l, m and s are units
_LETTERS = r"(?:[A-Za-zξ]{1,3}(?:_(?:\w|\{[^{}]*\}))?'?(?:(?<=[A-Z])\^\{?2\}?)?(?:\([^()=]*\))?|[A-Za-z][A-Za-z ]+)"
_ANOTHER_ROOT = late_pattern(r"\b([A-Za-z](?:_\w)?)\s*=[^=\n]*[0-9)}] *(?:or|and) +\1\s*=\s*$")  # x = 7 or x = -7
_STATED = late_pattern(rf"[\s{{(]*{_LETTERS}(?:\s*[+-]\s*{_LETTERS})*[\s}})&]*")
_NAME = late_pattern(r"\s*[a-z](?:_(?:[0-9A-Za-z]|\{[^{}]*\}))?'?\s*|\s*[a-z]\([^()]*\)\s*")


class Expression(NamedTuple):
    """A numeric expression found in a text.

    Attributes:
        text: the expression as it is written.
        value: the exact value; None if the expression is not a number.
        alone: whether the text consists only of the expression, apart from a name or "the answer is" before it and a
            unit after it.
    """

    text: str
    value: Fraction | None
    alone: bool


class _Word(NamedTuple):
    """A word outside the expression, with its position in the canonical text."""

    start: int
    end: int
    text: str


def last_expression(text: str) -> Expression | None:
    r"""Return the numeric expression that contains the last digit of a text; None if the text has no digit.

    >>> [last_expression(t).text for t in ("needs 2 2/3 cups", r"is $\frac{3}{4}$.", "10 - 3 = 7.", "at 10:30")]
    ['2 2/3', '\\frac{3}{4}', '7', '10:30']
    >>> [str(last_expression(t).value) for t in ("2 and 2/3 cups", "5 million", "3rd", "x_2", "(-3, 5)", "7 per hour")]
    ['8/3', '5000000', '3', 'None', 'None', '7']
    """
    last = max(text.rfind(digit) for digit in DIGITS)
    if last < 0:
        return None
    begin = max(0, last - BEFORE)
    found_in = canonical(text[begin : last + BEHIND])
    found = _found(found_in.text)
    if found is None:
        return None
    low, high = begin + found_in.starts[found.low], begin + found_in.ends[found.high - 1]
    seen = not begin or found.low > 0  # False if the expression may begin before the text that is read
    whole = not begin and last + BEHIND >= len(text)
    return Expression(text[low:high], _value(found) if seen else None, whole and _alone(found))


class _Found(NamedTuple):
    """An expression in a canonical text.

    Attributes:
        words: the words of the text that are not part of an expression.
        after: number of ``words`` that come before the expression.
        low, high: start and end of the expression.
        begins, ends: whether a word of the same sentence comes directly before the expression (begins) or directly
            after it (ends).
        unsolved: whether the expression is a side of an equation that must still be solved for its unknown.
    """

    text: str
    words: list[_Word]
    after: int
    low: int
    high: int
    begins: bool
    ends: bool
    unsolved: bool

    @property
    def expression(self) -> str:
        return self.text[self.low : self.high]

    @property
    def behind(self) -> list[str]:
        """Return the words after the expression, up to the first punctuation mark."""
        found: list[str] = []
        at = self.high
        for word in self.words[self.after :] if self.ends else ():
            if self.text[at : word.start].strip(" -/{}") or (at == self.high and "/" in self.text[at : word.start]):
                break
            found.append(word.text)
            at = word.end
        return found

    @property
    def before(self) -> str:
        """Return the word directly before the expression; empty if there is none."""
        return self.words[self.after - 1].text if self.begins and self.after else ""


def _words(text: str) -> list[_Word]:
    """Return the words that are not part of an expression."""
    return [
        _Word(match.start(), match.end(), match[0])
        for match in _WORD.finditer(text)
        if not _is_part(text, match.start(), match.end())
    ]


def _is_part(text: str, start: int, end: int) -> bool:
    """Return whether letters belong to the expression beside them, as they do in x_2, f(3), 2x, A4, n/2 and 1e5."""
    word = text[start:end]
    if not word.isascii() and not re.fullmatch("[Α-ωξ]+", word):
        return False  # Chinese is written next to digits without a space
    before, after = text[:start], text[end:]
    left, right = before.rstrip(" "), after.lstrip(" ")
    if left[-1:] == "{" and re.search(rf"(?:[{FRACTION}{ROOT}^_]|{FRACTION}\{{[^{{}}]*\}} ?)\{{+$", left[-60:]):
        return True
    known = len(word) > 2 or word in UNITS or word in ORDINALS
    if left[-1:].isdigit() and left == before and not known:
        return True
    if word == "ξ" or (len(word) == 1 and word not in UNITS):
        if left[-1:] and left[-1] in "0123456789)}^*+/" and (word == "ξ" or left == before or left[-1] in "^*+/"):
            return True
        if right[:1] in ("+", "*", "^", "/") or (right[:2] == "- " and after != right):
            return True
    if word == "ξ":
        return right[:1].isdigit() or right[:1] in ("{", FRACTION, ROOT)
    if before[-1:] in ("_", "^") or after[:1] in ("_", "^", "[") or re.match(r"\([^()]*[0-9]", after):
        return True
    if after[:1].isdigit() or (after[:1] == "/" and re.match(rf"[0-9({FRACTION}]", after[1:])):
        return word.upper() not in CURRENCIES
    if re.match(r"-[0-9]", after) or re.match(r" ?[*+] ?[0-9]", after) or re.match(r"-[A-Za-z]?[0-9]", after):
        return True
    return bool(re.search(r"[0-9)}] ?[*+] ?$", before))


def _found(text: str) -> _Found | None:
    """Return the last expression of a text in canonical form."""
    words = _words(text)
    edges = [(0, 0), *((word.start, word.end) for word in words), (len(text), len(text))]
    for after in range(len(edges) - 2, -1, -1):
        low, high = edges[after][1], edges[after + 1][0]
        if _HAS_DIGIT.search(text, low, high):
            return _last_part(text, words, after, low, high)
    return None


def _last_part(text: str, words: list[_Word], after: int, low: int, high: int) -> _Found:
    """Return the last part of the text between two words: the part after the last line break or equals sign."""
    first, last = low, high
    for brk in _BREAK.finditer(text, low, high):
        if _HAS_DIGIT.search(text, brk.end(), high):
            low = brk.end()
        elif _HAS_DIGIT.search(text, low, brk.start()):
            high = brk.start()
            break
    begins, ends = low == first, high == last
    low, high = _trimmed(text, low, high, line=True)
    if re.fullmatch(r"\([^(),]*=[^(),]*\)", text[low:high]):
        low, high = low + 1, high - 1
    unsolved = False
    while (equals := text.rfind("=", low, high)) >= 0:
        if not _HAS_DIGIT.search(text, equals, high):
            high, begins, ends = equals, False, False
            continue
        left = text[low:equals].rpartition("=")[2]
        unsolved = bool(_ONE_UNKNOWN.fullmatch(left)) and not _NAME.fullmatch(left) and not left.startswith("(")
        low, begins = equals + 1, False
        break
    low, high = _trimmed(text, low, high, line=False)
    first_low = low
    if inner := re.fullmatch(r"[^()]*[0-9%°)}] \(([^()]*[0-9][^()]*)\)", text[low:high]):
        low, high, begins, ends = low + inner.start(1), low + inner.end(1), False, False
        equals = text.rfind("=", low, high)
        low, high = _trimmed(text, max(low, equals + 1), high, line=False)
        said = value_of(text[first_low : text.index(" (", first_low)])
        unsolved = unsolved or said not in (None, value_of(text[low:high]))
    elif (
        ends
        and after < len(words)
        and not _lists(text, words, after, begins)
        and (two := re.fullmatch(r"[^,(){}\[\]]*[0-9], ([^,]*)", text[low:high]))
    ):
        low, begins = low + two.start(1), False  # in 2020, 15 people
    return _Found(text, words, after, low, high, begins, ends, unsolved)


def _lists(text: str, words: list[_Word], after: int, begins: bool) -> bool:
    """Return whether two numbers separated by a comma are two answers, unlike those in "On day 7, 15 people"."""
    word = words[after - 1].text.lower() if after else ""
    return not begins or not word or word in LEADING or word in ("are", "were", "values", "numbers", "answers")


def _trimmed(text: str, low: int, high: int, line: bool) -> tuple[int, int]:
    """Remove punctuation and unmatched brackets at the ends of an expression, and return the new start and end."""
    while low < high:
        first, last = text[low], text[high - 1]
        if first in _LEFT_EDGE or _is_ornament(first) or (first == "." and not _is_decimal(text, low)):
            low += 1
        elif first in "-+" and (text[low + 1 : low + 2] == " " and (line or text[low + 2 : low + 3] == "")):
            low += 2
        elif last in _RIGHT_EDGE or _is_ornament(last):
            high -= 1
        elif first in "({[" and _closing(text, low, high) is None:
            low += 1
        elif last in ")}]" and _unopened(text, low, high):
            high -= 1
        else:
            break
    return low, high


def _is_ornament(sign: str) -> bool:
    """Return whether a character is an emoji, or another non-ASCII symbol that does not belong to a number."""
    return not (sign.isascii() or sign.isalnum() or sign in f"{FRACTION}{ROOT}°≤")


def _is_decimal(text: str, point: int) -> bool:
    """Return whether a point begins a decimal number, as in .5 but not in Rs.5."""
    return text[point + 1 : point + 2].isdigit() and not text[max(point - 1, 0) : point].isalpha()


def _closing(text: str, low: int, high: int) -> int | None:
    """Return the position of the bracket that closes the one at ``low``; None if it is not closed."""
    depth = 0
    for at in range(low, high):
        depth += (text[at] in "({[") - (text[at] in ")}]")
        if depth == 0:
            return at
    return None


def _unopened(text: str, low: int, high: int) -> bool:
    """Return whether there are more closing than opening brackets. Brackets of different shapes form a pair, as in
    (1, 2]."""
    depth = sum((sign in "({[") - (sign in ")}]") for sign in text[low:high])
    return depth < 0


def _value(found: _Found) -> Fraction | None:
    """Return an expression's value, changed by the words beside it; None if the expression is not a number."""
    text = found.expression
    value = value_of(re.sub(r" ?[%°]+(?=[)}\]]*$)|(?<=[0-9])['\"]$", "", text))
    behind, before = found.behind, found.before
    first = behind[0] if behind else ""
    if value is None or found.unsolved or re.search(r"[<>≤]", found.text[max(found.low - 3, 0) : found.low]):
        return None
    if _ANOTHER_ROOT.search(found.text[max(found.low - 60, 0) : found.low]):
        return None
    if first in MONTHS or before in MONTHS or before.lower() in FUNCTIONS:
        return None
    if first.lower() in NO_LONGER or (first.lower() in PARTS and behind[1:2] in ([], ["of"])):  # but 2 sixth graders
        return None
    if re.match(r"or (?:more|less|fewer|so)\b", " ".join(behind).lower()):
        return None
    if (scaled := east_asian_scale(first, before)) is None:
        return None
    value *= scaled
    for word in behind:
        if word.lower().removesuffix("s") not in SCALES:
            break
        value *= Fraction(10) ** SCALES[word.lower().removesuffix("s")]
    if [word.lower() for word in behind[:3]] in (["and", "a", "half"], ["and", "one", "half"]):
        value += Fraction(1, 2)
    elif [word.lower() for word in behind[:3]] == ["and", "a", "quarter"]:
        value += Fraction(1, 4)
    if found.begins and (earlier := _joined(found, value)) is not None:
        return earlier[0]
    return -value if before.lower() in ("negative", "minus") and value > 0 else value


def _joined(found: _Found, value: Fraction) -> tuple[Fraction | None] | None:
    """Combine the value with a number shortly before it, as in 2 and 2/3. Only a unit or words such as "and" may stand
    between the two numbers.

    Return None if there is no number to join, and ``(the joined value,)`` if the two numbers form a mixed number.
    Return ``(None,)`` for two numbers that do not form a single number.
    """
    between: list[str] = []
    for i in range(found.after - 1, max(found.after - 5, -1), -1):
        word = found.words[i]
        between.insert(0, word.text.lower())
        stretch = found.text[found.words[i - 1].end if i else 0 : word.start].rstrip(" ,{}()")
        if "\n" in found.text[word.end : found.low] or re.search(r"[.;:?]\s", found.text[word.end : found.low]):
            return None
        if not stretch[-1:].strip():
            continue
        if not re.search(r"[0-9)}%°!]$", stretch):
            return None
        if " ".join(between) == "and" and 0 < value < 1 and "." not in found.expression:
            whole = re.search(r"(?:^|[^0-9.,/^-])([0-9]{1,9})$", stretch)
            return (int(whole[1]) + value if whole else None,)
        units_of_both = between[0], found.behind[0].lower() if found.behind else ""
        compound = between[1:] in ([], ["and"]) and one_quantity(*units_of_both)
        return (None,) if " ".join(between) in JOINING or compound else None
    return None


def _alone(found: _Found) -> bool:
    """Return whether the text around the expression states no other number or formula, only words such as a unit."""
    lead = found.text[: found.low]
    if "=" in lead[-3:]:
        *sides, _ = lead.rpartition(":")[2].split("=")
        if not all(_states(side, found) for side in sides):
            return False
    elif _HAS_DIGIT.search(lead):
        return False
    stated = "=" in lead[-3:]
    lead_words = [word.text.lower() for word in found.words[: found.after]]
    if NEGATING & set(lead_words) or re.search(r";|\.\s|\S\s*\n", lead):
        return False
    if lead_words and not stated and lead_words[-1] not in LEADING and not lead.rstrip(" {(").endswith(":"):
        return False
    tail = [word.text for word in found.words[found.after :]]
    behind = found.text[found.high :]
    if (
        _HAS_DIGIT.search(behind)
        or re.search(r"[=<>;+*^≤]|\n\s*\S", behind)
        or re.match(r"[a-zA-Z](?![A-Za-z])", behind)
    ):
        return False
    while tail and (tail[0].lower().removesuffix("s") in SCALES or tail[0] in ORDINALS):
        tail.pop(0)
    if [word.lower() for word in tail[:3]] in (["and", "a", "half"], ["and", "one", "half"], ["and", "a", "quarter"]):
        del tail[:3]
    return units.is_unit(" ".join(tail))


def _states(side: str, found: _Found) -> bool:
    """Return whether the left side of an equation names the value on the right or has this value. The left side of
    x + y - z = 0 does neither."""
    if not re.search("[A-Za-zξ]", side):
        value = value_of(side.strip(" ,{}$"))
        return value is None or value == value_of(found.expression)
    return bool(_STATED.fullmatch(side)) and (value_of(found.expression) != 0 or bool(_NAME.fullmatch(side)))
