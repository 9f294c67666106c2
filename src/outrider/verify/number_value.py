r"""Computes the exact value of one numeric expression with fractions, powers, roots and factorials, in linear time.

The text is in the canonical form of :mod:`outrider.verify.number_text`. An expression may have a sign. It may be a
number with decimals and an exponent (``1.5e3``), in which commas, spaces or underscores may separate thousands. It may
also be a quotient ``a/b``, a fraction of two expressions, a mixed number (``2 2/3``), ``a*10^b``, a power, a root, a
factorial, or any of these in brackets. Sums, differences and products have no value in this module, since they are not
final results. Irrational roots, dates, times, lists and values of more than ``MOST_BITS`` bits are not numbers either.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from outrider.texts import late_pattern

FRACTION, ROOT = "\ue000", "\ue001"  # signs of the canonical form
MOST_BITS = 4096  # maximum bits of a numerator, and of a denominator
LARGEST_FACTORIAL = 170
LARGEST_EXPONENT = 300  # maximum exponent of ten
DEEPEST = 12  # maximum nesting depth of brackets

_GROUPED = r"(?!0)[0-9]{1,3}(?:(?:,[0-9]{3})+(?!,?[0-9])|(?: [0-9]{3})+(?! ?[0-9])|(?:_[0-9]{3})+(?!_?[0-9]))"
_EXPONENT = r"(?:[eE](?:-?[0-9]+|\+[0-9]{2,}))?"
_NUMBER = late_pattern(rf"(?:(?:{_GROUPED}|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+){_EXPONENT}(?![0-9])")
_WHOLE = late_pattern(r"[0-9]+")
_MIXED = late_pattern(rf"([0-9]+)(?: *(?={FRACTION})| +(?=[0-9]+ ?/ ?[0-9]+(?![0-9.,^!])))")
_POWER_OF_TEN = late_pattern(r" ?\* ?10 ?(?=\^)")
_BRACKETS = {"(": ")", "{": "}", "[": "]"}


class _NoNumberError(Exception):
    """The text is not a number."""


def value_of(text: str) -> Fraction | None:
    r"""Return the exact value of an expression; None if it is not a number.

    >>> value_of("2 2/3"), value_of("1.5*10^{3}"), value_of("2^10"), value_of("3!"), value_of("1 000 000")
    (Fraction(8, 3), Fraction(1500, 1), Fraction(1024, 1), Fraction(6, 1), Fraction(1000000, 1))
    >>> value_of("10:30"), value_of("(-3, 5)"), value_of("10^(10^10)"), value_of("5 3"), value_of("2*3")
    (None, None, None, None, None)
    """
    reader = _Reader(text)
    try:
        value = reader.signed()
        return value if reader.ended() else None
    except (_NoNumberError, ZeroDivisionError):
        return None


class _Reader:
    """Reads an expression from left to right. ``at`` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def ended(self) -> bool:
        return self.at == len(self.text)

    def signed(self) -> Fraction:
        """Read a value with an optional sign."""
        if self.taken("+"):
            return self.unsigned()
        return -self.unsigned() if self.taken("-") else self.unsigned()

    def unsigned(self) -> Fraction:
        """Read a value without a sign: a mixed number, a quotient, or a number times a power of ten."""
        if mixed := _MIXED.match(self.text, self.at):
            self.at = mixed.end()
            part = self.quotient()
            if not 0 < part < 1:
                raise _NoNumberError
            return _bounded(_integer(mixed[1]) + part)
        return self.quotient()

    def quotient(self) -> Fraction:
        value = self.scientific()
        before = self.at
        self.taken(" ")
        if not self.taken("/"):
            self.at = before
            return value
        self.taken(" ")
        return _bounded(value / self.scientific())

    def scientific(self) -> Fraction:
        value = self.power()
        if times := _POWER_OF_TEN.match(self.text, self.at):
            self.at = times.end()
            return _bounded(value * self.raised(Fraction(10)))
        return value

    def power(self) -> Fraction:
        value = self.atom()
        if self.taken("!"):  # in a double factorial, the second sign is left over, so the text is no number
            value = _factorial(value)
        return self.raised(value) if self.next() == "^" else value

    def raised(self, base: Fraction) -> Fraction:
        """Read ``^`` and the exponent, and return the power."""
        self.at += 1
        if self.next() in _BRACKETS:
            exponent = self.group()
        else:
            sign = -1 if self.taken("-") else 1
            whole = _WHOLE.match(self.text, self.at)
            if whole is None:
                raise _NoNumberError
            self.at = whole.end()
            exponent = Fraction(sign * _integer(whole[0]))
        return _power(base, exponent)

    def atom(self) -> Fraction:
        if self.taken(FRACTION):
            return _bounded(self.argument() / self.argument())
        if self.taken(ROOT):
            degree = self.group() if self.next() == "[" else Fraction(2)
            under = self.group() if self.next() in _BRACKETS else self.number()
            return _root(under, degree)
        return self.group() if self.next() in _BRACKETS else self.number()

    def group(self) -> Fraction:
        """Read an expression in brackets."""
        closing = _BRACKETS.get(self.next())
        self.depth += 1
        if closing is None or self.depth > DEEPEST:
            raise _NoNumberError
        self.at += 1
        self.taken(" ")
        begin = self.at
        value = self.signed()
        self.taken(" ")
        if not self.taken(closing) or (closing != "}" and "," in self.text[begin : self.at]):  # (1,200) is a pair
            raise _NoNumberError
        self.depth -= 1
        return value

    def argument(self) -> Fraction:
        """Read the numerator or denominator of a fraction, in brackets or as a single digit, as in LaTeX."""
        self.taken(" ")
        if self.next() in _BRACKETS:
            return self.group()
        digit = self.next()
        if not digit.isascii() or not digit.isdigit():
            raise _NoNumberError
        self.at += 1
        return Fraction(int(digit))

    def number(self) -> Fraction:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise _NoNumberError
        self.at = match.end()
        mantissa, _, exponent = re.sub("[, _]", "", match[0]).lower().partition("e")
        if len(exponent) > 4 or abs(int(exponent or 0)) > LARGEST_EXPONENT or len(mantissa) > MOST_BITS // 4:
            raise _NoNumberError
        return Fraction(mantissa) * Fraction(10) ** int(exponent or 0)

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def taken(self, sign: str) -> bool:
        """Return whether ``sign`` comes next, and if so, move past it."""
        found = self.next() == sign
        self.at += found
        return found


def _integer(digits: str) -> int:
    if len(digits) > MOST_BITS // 4:
        raise _NoNumberError
    return int(digits)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise _NoNumberError
    return value


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or not 0 <= value <= LARGEST_FACTORIAL:
        raise _NoNumberError
    return Fraction(math.factorial(int(value)))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """Return an exact power; a fractional exponent means a root."""
    if exponent.denominator != 1:
        base, exponent = _root(base, Fraction(exponent.denominator)), Fraction(exponent.numerator)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length(), 1)
    if abs(exponent) > MOST_BITS or (abs(base) != 1 and bits * abs(exponent) > 2 * MOST_BITS):
        raise _NoNumberError
    return _bounded(base ** int(exponent))


def _root(under: Fraction, degree: Fraction) -> Fraction:
    """Return the exact root of a non-negative number. The root must be rational."""
    if under < 0 or degree.denominator != 1 or not 1 < degree <= 64:
        raise _NoNumberError
    n = int(degree)
    roots = [_whole_root(part, n) for part in (under.numerator, under.denominator)]
    return Fraction(roots[0], roots[1])


def _whole_root(whole: int, n: int) -> int:
    low, high = 0, 1 << (whole.bit_length() // n + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**n < whole:
            low = middle + 1
        else:
            high = middle
    if low**n != whole:
        raise _NoNumberError
    return low
