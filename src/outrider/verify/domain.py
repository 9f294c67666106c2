r"""Checks that an answer is defined wherever the gold answer is defined. Without this check, the two answers might be
compared only at the few points where the answer has a value.

An answer is undefined at a point where it contains a division by zero, a factorial of -1, a sum that ends before it
begins, or (over the reals) a root or logarithm of a negative number. The domain of an answer may be smaller in two
cases:

- **Real variables.** The answer must have a value at random points, but may have no value at isolated points. An
  example is (x^2-1)/(x-1) for the gold answer x+1. Roots and logarithms may also make the answer undefined on a
  half-line, as in \ln(x-1)-\ln(x-2) for the gold answer \ln\frac{x-1}{x-2}. This is not allowed if the gold answer has
  several cases: \sqrt{x}^2 equals |x| only in the case x >= 0.
- **Variables that mean integers.** A variable may mean an integer because of its name (n, k, …), or because the gold
  answer contains its factorial, for example. With one variable, once the answer has a value at a natural number, it
  must have a value at every larger one. An example is n!/(n-1)! for the gold answer n. With several variables, an
  answer with a value at a point such as n = 4, k = 2 must also have one at its multiples, such as n = 8, k = 4. An
  example is n!/(k!(n-k)!).

For example, n!(1-n)!n^7 does not equal n: the two agree at n = 0 and n = 1, but (1-n)! has no value from n = 2 on.

For real and for integer variables, the answers must be compared at ``DECIDING`` or more different values of each
variable. This is impossible for the sum \sum_{k=1}^{n^9} 1, which has too many terms from n = 2 on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any

DECIDING = 5  # minimum number of different values of each letter at which the answers must be compared
INTEGER_NAMES = frozenset("abcdijklmnpqrsKMN")  # may mean integers even if the gold answer is real
_INTEGER_FUNCTIONS = {"gcd", "lcm", "factorial", "binomial"}
_WRITTEN_OUT = {"Sum", "Product"}
_BRANCHING = {"Abs", "Max", "Min", "sign", "floor", "ceiling", "Mod"}
_IN_TURN = 16  # number of natural numbers that are tried, beginning with 0
_BASES, _HIGHEST, _MULTIPLES = 36, 9, (1, 2, 3)  # for several letters: base points, largest coordinate, multiples
_FEWEST = 12  # with several letters, at least one in 12 points must be in the domain of the answer
_SPREAD = 60
_ODD = 10007

LetterValues = dict[str, Fraction]


class Found(Enum):
    """The result of comparing an answer with the gold answer at a point (values of the variables) where the gold answer
    is defined."""

    AGREES = "agrees"
    NOT_REAL = "not real"
    NO_VALUE = "no value"


class Domain:
    """The points where an answer agrees with the gold answer, and the points where the answer has no value.

    Args:
        gold: the gold answer.
        answer: the answer taken from the response.
        letters: names of the variables in both answers.
    """

    def __init__(self, gold: Any, answer: Any, letters: Sequence[str]) -> None:
        self._letters = letters
        from sympy import preorder_traversal

        of_gold, of_answer = (_integers(expr) & set(letters) for expr in (gold, answer))
        self._whole = [n for n in letters if n in of_gold or n.partition("_")[0] in INTEGER_NAMES]
        self._may_be_whole = bool(self._whole) and of_answer <= set(self._whole)
        branches = any(type(node).__name__ in _BRANCHING for node in preorder_traversal(gold))
        self._missing = {Found.NO_VALUE, Found.NOT_REAL} if branches else {Found.NO_VALUE}
        self._found: list[tuple[LetterValues, Found]] = []

    def note(self, point: LetterValues, found: Found) -> None:
        """Record the result at a point."""
        self._found.append((point, found))

    def is_open(self) -> bool:
        """Return whether the answer was compared at enough points, and is undefined only where the rules for real
        variables allow it (see the module's docstring)."""
        at_random = [(p, f) for p, f in self._found if not _all_whole(p)]
        at_random = at_random or self._found  # a letter inside a floor function is an integer at every point
        if any(f in self._missing for _, f in at_random):
            return False
        agreed = [p for p, f in self._found if f is Found.AGREES]
        missing = sum(f is Found.NO_VALUE for _, f in self._found)
        return 2 * missing <= len(agreed) and self._enough([p for p, f in at_random if f is Found.AGREES])

    def spread(self, near: Sequence[Fraction]) -> Iterator[LetterValues]:
        """Yield more points, for an answer that has values only in a small domain. The coordinates are random numbers
        with absolute values from 0.01 to 10,000, or random numbers between or close to the constants ``near``."""
        draw = random.Random("spread")
        ends = [Fraction(0), *near]
        for number in range(_SPREAD):
            point = {}
            for name in self._letters:
                share = Fraction(draw.randrange(-_ODD // 2, 2 * _ODD), _ODD)
                low, high = draw.choice(ends), draw.choice(ends)
                scaled = Fraction(round(10 ** draw.uniform(-2, 4) * _ODD) * draw.choice((1, -1)), _ODD)
                point[name] = low + (high - low) * share if number % 2 and low != high else scaled
            yield point

    def naturals(self) -> Iterator[LetterValues]:
        """Yield points with natural numbers for the letters that may mean integers. If there is no such letter, yield
        no points."""
        if not self._may_be_whole:
            return
        draw = random.Random("naturals")
        others = [name for name in self._letters if name not in self._whole]

        def beside() -> LetterValues:
            return {name: Fraction(draw.randrange(1, 3 * _ODD), _ODD) for name in others}

        if len(self._whole) == 1:
            for number in range(_IN_TURN):
                yield beside() | {self._whole[0]: Fraction(number)}
            return
        for _ in range(_BASES):
            base = {name: draw.randrange(1, _HIGHEST + 1) for name in self._whole}
            real = beside()
            for times in _MULTIPLES:
                yield real | {name: Fraction(times * value) for name, value in base.items()}

    def is_of_integers(self, found: Sequence[tuple[LetterValues, Found]]) -> bool:
        """Return whether the answer equals the gold answer at enough natural numbers. With one variable, once the two
        are equal at a number, they must be equal at every larger number that was tried. With several variables, if the
        two are equal at a point such as n = 4, k = 2, they must be equal at its multiples, such as n = 8, k = 4.

        Args:
            found: the results at the points that :meth:`naturals` yields, in the same order.
        """
        agreed = [point for point, what in found if what is Found.AGREES]
        if not self._may_be_whole or not self._enough(agreed):
            return False
        if Found.NOT_REAL in self._missing and any(what is Found.NOT_REAL for _, what in self._found):
            return False
        if len(self._whole) == 1:
            first = next(i for i, (_, what) in enumerate(found) if what is Found.AGREES)
            return all(what is Found.AGREES for _, what in found[first:])
        has_value: dict[tuple[Fraction, ...], bool] = {}
        for point, what in found:
            key = tuple(point[name] for name in self._whole)
            has_value[key] = has_value.get(key, True) and what is Found.AGREES
        inside = [key for key, value in has_value.items() if value]
        multiples = (tuple(times * value for value in key) for key in inside for times in _MULTIPLES[1:])
        return _FEWEST * len(inside) >= len(has_value) and all(has_value.get(key, True) for key in multiples)

    def _enough(self, agreed: Sequence[LetterValues]) -> bool:
        return all(len({point[name] for point in agreed}) >= DECIDING for name in self._letters)


def _all_whole(point: LetterValues) -> bool:
    return all(value.denominator == 1 for value in point.values())


def _integers(expr: Any) -> set[str]:
    """Return the variables that must be integers: those in gcd, lcm, factorials and binomials, and in the limits of
    sums and products."""
    from sympy import preorder_traversal

    found: set[str] = set()
    for node in preorder_traversal(expr):
        kind = type(node).__name__
        if kind in _INTEGER_FUNCTIONS:
            found |= {s.name for s in node.free_symbols}
        elif kind in _WRITTEN_OUT:
            found |= {s.name for limit in node.limits for bound in limit[1:] for s in bound.free_symbols}
    return found
