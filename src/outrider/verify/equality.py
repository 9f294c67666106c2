"""Compares two mathematical answers, first as texts and numbers, then by algebra."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from outrider.record import Outcome
from outrider.verify import units
from outrider.verify.algebra import equal, readable
from outrider.verify.answers import normalise, number
from outrider.verify.latex import UnreadableError, clean, refuse
from outrider.verify.prose import value_of
from outrider.verify.repetitions import without_repetitions
from outrider.verify.typography import FONT, TEXT, plain

_IN_TEXT = re.compile(rf"{TEXT}\s*\{{[^{{}}]*[A-Za-z][^{{}}]*\}}")
_ALL_WORDS = re.compile(r"[(]?[A-Za-z]{3,}(?:[\s-][A-Za-z]+)*[)]?")
_TYPESETTING = re.compile(rf"[\s{{}}().,$*]|(?:{FONT}|\\boxed)(?![A-Za-z])")
_COMMA = re.compile(r"[-+]?(?:[0-9]+,(?![0-9]{3}$)[0-9]+|0,[0-9]+)")  # a decimal comma; but 1,000 is a thousand
_CURRENCIES = {"\\$": "dollars", "€": "euros", "£": "pounds sterling", "¥": "yen"}


# cached, since the rollouts of a group often have the same answers
@lru_cache(8192)
def compare(gold: str, answer: str, tolerance: float = 0.0) -> tuple[Outcome, str]:
    r"""Compare an answer with the gold answer. Return the outcome, and a reason if the outcome needs one.

    >>> compare("0.5", r"\frac{1}{2}"), compare("42", "10^{10000000}")
    ((<Outcome.CORRECT: 'correct'>, ''), (<Outcome.UNPARSEABLE: 'unparseable'>, 'an exponent beyond 5 digits'))
    """
    answer = without_repetitions(gold, answer)
    if not units.agree(_unit(gold), _unit(answer)):
        return Outcome.INCORRECT, "another unit"
    if normalise(answer) == normalise(gold):
        return Outcome.CORRECT, ""
    if clean(gold) == clean(answer) != "":
        return Outcome.CORRECT, ""
    right, value = _plain(gold), _plain(answer)
    if (comma := _decimal_comma(gold, answer)) is not None:
        return _outcome(comma)
    if right is not None and value is not None:
        allowed = abs(right) * Fraction(tolerance) if "." in gold else 0
        return _outcome(abs(value - right) <= allowed)
    try:
        refuse(answer)
    except UnreadableError as reason:
        return Outcome.UNPARSEABLE, str(reason)
    in_words = _in_words(gold), _in_words(answer)
    if any(in_words) and (in_words[0] or _IN_TEXT.search(clean(answer))):
        return _outcome(_letters(value_of(plain(gold))) == _letters(value_of(plain(answer))))
    if not readable(gold):
        return Outcome.INCORRECT, "another text than the gold answer, which is only text"
    try:
        return _outcome(equal(gold, answer, tolerance))
    except UnreadableError as reason:
        return Outcome.UNPARSEABLE, str(reason)


def _outcome(same: bool) -> tuple[Outcome, str]:
    return (Outcome.CORRECT if same else Outcome.INCORRECT), ""


def _plain(text: str) -> Fraction | None:
    """Return the value of a text that is only a number; None for other texts, such as 50% (50 or 0.5) and x = 3."""
    return None if "%" in plain(text) or "=" in text else number(text)


def _unit(text: str) -> str:
    r"""Return a quantity's unit, currency, or "percentage". A dollar sign is a currency only if it is escaped, as in
    LaTeX."""
    sign = next((name for sign, name in _CURRENCIES.items() if sign in text), "")
    return units.split(plain(text))[1] or sign or ("percentage" if plain(text).endswith("%") else "")


def _decimal_comma(gold: str, answer: str) -> bool | None:
    """Return whether two decimal numbers are equal, where one of them has a decimal comma; None for any other pair of
    answers."""
    one, other = plain(gold), plain(answer)
    for with_comma, without in ((one, other), (other, one)):
        if _COMMA.fullmatch(with_comma) and "." in without and (value := number(without)) is not None:
            return number(with_comma.replace(",", ".")) == value
    return None


def _in_words(text: str) -> bool:
    text = clean(text)
    return bool(_IN_TEXT.search(text) or _ALL_WORDS.fullmatch(text))


def _letters(text: str) -> str:
    """Return a text in lower case and without typesetting."""
    return _TYPESETTING.sub("", text).casefold()
