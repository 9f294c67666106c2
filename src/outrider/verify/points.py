r"""Compares the values of two expressions, exactly or to sixty digits, for many values of their variables (points).

The values of a variable are positive and negative numbers of several orders of magnitude, and small and large integers.
Integers are needed for floor, gcd, n!, and (-1)^n, which is real only at integers. Further values are close to the
constants in both expressions, such as the 10 of |x - 10| and the 3 of max(n, 3). Two expressions are different if there
is a point at which both are defined and their values differ. If only the gold answer has a value at a point,
:mod:`outrider.verify.domain` decides whether this is allowed. If a comparison is undecided, the answer is incorrect.

Two different expressions hardly ever have equal values at so many random points. For polynomials, this follows from
the Schwartz-Zippel lemma.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

from outrider.verify.domain import Domain, Found, LetterValues
from outrider.verify.latex import UnreadableError
from outrider.verify.values import NotRealError, UndefinedError, UnknownError, Values

DIGITS = 60  # number of decimal digits that must agree, not counting digits that cancellation may destroy
CONVENTIONAL = frozenset("ijklmnpqMNK")  # letters that mean integers inside \lfloor or \bmod

_STEPS = {"floor", "ceiling", "Mod"}
_OF_INTEGERS = {"gcd", "lcm", "factorial", "binomial"}
_COUNTED = _STEPS | {"gcd", "lcm"}
_TURNS = {*_STEPS, *_OF_INTEGERS, "Abs", "sign", "Max", "Min", "Sum", "Product"}
_ODD = 10007  # a prime that hardly any answer has as a denominator
_GENERIC, _WHOLE, _NEAR, _TURNING = 6, 6, 4, 24  # number of points of each kind
_IN_TURN, _MOST_SIZES = 60, 6
_SCALES = (12, 60, 10**6, 5, 12, 10**3)
_HUGE = Fraction(10**300)


def same_value(gold: Any, answer: Any, tolerance: float = 0.0) -> bool | None:
    """Return whether two expressions, or two matrices of expressions, have the same values; None if undecided.

    Args:
        gold: the gold answer, as a sympy object.
        answer: the answer taken from the response, as a sympy object.
        tolerance: allowed relative error.

    Raises:
        UnreadableError: an expression has no value, or its value is too large.
    """
    from sympy import Expr, MatrixBase, nan, zoo

    gold, answer = _explicit(gold), _explicit(answer)
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        if gold.shape != answer.shape:
            return False
        same = [same_value(g, a, tolerance) for g, a in zip(gold.flat(), answer.flat(), strict=True)]
        return False if False in same else None if None in same else True
    if any(hasattr(e, "has") and e.has(nan, zoo) for e in (gold, answer)):
        raise UnreadableError("a division by zero")
    if gold == answer:
        return True
    if not isinstance(gold, Expr) or not isinstance(answer, Expr):
        return None
    return _agree(gold, answer, lambda _, pair: _close(*pair, tolerance))


def _explicit(value: Any) -> Any:
    """Evaluate a sum or product of matrices, unless it has matrix powers, whose evaluation may take forever."""
    from sympy import MatAdd, MatMul, MatPow

    if not isinstance(value, MatAdd | MatMul) or value.has(MatPow):
        return value
    within_use(value)
    return value.doit()


def within_use(value: Any) -> None:
    """Check the values of all subexpressions without variables, such as 9^9^9, before sympy evaluates the whole
    expression.

    Raises:
        UnreadableError: the value of a subexpression is too large.
    """
    if getattr(value, "is_Matrix", False) and hasattr(value, "flat"):
        for entry in value.flat():
            within_use(entry)
    elif getattr(value, "is_number", False) and value.is_commutative:
        with suppress(UndefinedError, UnknownError):
            Values({}, 15, over_complex=True).of(value)
    else:
        for arg in getattr(value, "args", ()):
            within_use(arg)


def proportional(gold: Any, answer: Any) -> bool | None:
    """Return whether one expression is a nonzero number times the other; None if undecided. If so, the two equations
    that set them to 0 are equivalent."""
    from sympy import Expr, Integer

    if not isinstance(gold, Expr) or not isinstance(answer, Expr):
        return None

    def same_ratio(first: ValuePair, pair: ValuePair) -> bool:
        if _zero(pair[0], pair.span) or _zero(pair[1], pair.span):
            return _zero(pair[0], pair.span) and _zero(pair[1], pair.span)
        return _close(pair[0] * first[1], pair[1] * first[0], pair.span + first.span)

    if _agree(gold, Integer(0), lambda _, pair: _close(*pair)):
        return False  # no equation is equivalent to 0 = 0, which states nothing
    return _agree(gold, answer, same_ratio)


class ValuePair(NamedTuple):
    """The values of two expressions at a point, and the number of digits that may have been lost by cancellation."""

    gold: Any
    answer: Any
    span: int


def _agree(gold: Any, answer: Any, holds: Callable[[ValuePair, ValuePair], bool]) -> bool | None:
    """Compare the values of two expressions at several points. Return True if ``holds`` is true at all points, False if
    it is false at one, and None if the comparison is undecided.

    ``holds`` gets the values of both expressions at the first point where ``gold`` is not zero, and the values of both
    expressions at the current point.
    """
    from sympy import I

    letters = sorted({s.name for s in gold.free_symbols | answer.free_symbols} - {"i"})
    imaginary = any(e.has(I) or any(s.name == "i" for s in e.free_symbols) for e in (gold, answer))
    with suppress(UnknownError):
        if not letters:
            return _constants(gold, answer, holds, imaginary)
        for over_complex in (True,) if imaginary else (False, True):
            decided = _Comparison(gold, answer, letters, over_complex, holds).decide()
            if decided is not None:
                return decided
    return None


class _Comparison:
    """Compares two expressions with variables, over the real or the complex numbers."""

    def __init__(
        self,
        gold: Any,
        answer: Any,
        letters: Sequence[str],
        over_complex: bool,
        holds: Callable[[ValuePair, ValuePair], bool],
    ) -> None:
        self._both = gold, answer
        self._letters, self._over_complex, self._holds = letters, over_complex, holds
        self._domain = Domain(gold, answer, letters)
        self._first: ValuePair | None = None

    def decide(self) -> bool | None:
        """Return False after the first difference, True if the expressions agree at enough points, and None if
        undecided."""
        if self._try(points(*self._both, self._letters)) is None:
            return False
        if self._domain.is_open():
            return True
        near = sorted(_constants_in(self._both[0]) | _constants_in(self._both[1]))
        if self._try(self._domain.spread(near)) is None:
            return False
        if self._domain.is_open():
            return True
        if (found := self._try(self._domain.naturals())) is None:
            return False
        return True if self._domain.is_of_integers(found) else None

    def _try(self, tried: Iterable[LetterValues]) -> list[tuple[LetterValues, Found]] | None:
        """Return the result at each point where the gold answer has a value; None if the answer's value differs at one
        of these points."""
        every = []
        for point in tried:
            found = self._at(point)
            if isinstance(found, ValuePair):
                self._first = self._first or (found if not _zero(found.gold, found.span) else None)
                if not self._holds(self._first or found, found):
                    return None
                found = Found.AGREES
            if found is not None:
                self._domain.note(point, found)
                every.append((point, found))
        return every

    def _at(self, point: LetterValues) -> ValuePair | Found | None:
        """Return the values of both expressions at a point. If only the answer has no value, return the reason. If the
        gold answer's value does not exist or cannot be computed, return None."""
        try:
            return _values(*self._both, point, self._over_complex)
        except UnreadableError:
            return None
        except UndefinedError as error:
            missing = Found.NOT_REAL if isinstance(error, NotRealError) else Found.NO_VALUE
        try:
            Values(point, 2 * DIGITS, self._over_complex).of(self._both[0])
        except (UndefinedError, UnreadableError):
            return None
        return missing


def _constants(gold: Any, answer: Any, holds: Callable[[ValuePair, ValuePair], bool], imaginary: bool) -> bool:
    """Compare two expressions without letters over the reals or, if a value is not real, over the complex numbers."""
    reason = ""
    for over_complex in (True,) if imaginary else (False, True):
        try:
            pair = _values(gold, answer, {}, over_complex)
            return holds(pair, pair)
        except UndefinedError as error:
            reason = str(error)
    raise UnreadableError(reason)


def _values(gold: Any, answer: Any, point: LetterValues, over_complex: bool) -> ValuePair:
    """Return the values of both expressions at a point. If many digits may have cancelled, the values are recomputed
    with more digits."""
    digits = 2 * DIGITS
    while True:
        values = Values(point, digits, over_complex)
        a, b = values.of(gold), values.of(answer)
        span = int(values.span) + 1
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return ValuePair(a, b, span)
        if digits >= DIGITS + 2 * span:
            return ValuePair(values.inexact(a), values.inexact(b), span)
        digits = 2 * DIGITS + 2 * span


def _close(a: Any, b: Any, span: int, tolerance: float = 0.0) -> bool:
    """Return whether two numbers agree, either within a relative tolerance or in all reliable digits."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return abs(a - b) <= Fraction(tolerance) * max(abs(a), abs(b))
    return _zero(a - b, span) or bool(abs(a - b) <= tolerance * max(abs(a), abs(b)))


def _zero(value: Any, span: int) -> bool:
    """Return whether a number is zero in all reliable digits."""
    if isinstance(value, Fraction):
        return value == 0
    return value == 0 or bool(value.context.mag(value) * math.log10(2) < -DIGITS // 2 - span)


def points(gold: Any, answer: Any, letters: Sequence[str]) -> Iterator[LetterValues]:
    """Yield points (values for the letters), with the most useful points first. Equal expressions give equal points."""
    kinds = {type(node).__name__ for e in (gold, answer) for node in _nodes(e)}
    whole = {
        s.name
        for e in (gold, answer)
        for node in _nodes(e)
        if (kind := type(node).__name__) in _STEPS | _OF_INTEGERS
        for s in node.free_symbols
        if kind in _OF_INTEGERS or s.name.partition("_")[0] in CONVENTIONAL
    }
    near = _constants_in(gold) | _constants_in(answer)
    near |= {1 / constant for constant in near if constant.denominator > 1}  # n/2026 contains 1/2026
    pool = sorted(near) or [Fraction(1)]
    turning = _TURNING if kinds & _TURNS else 0

    def draw(kind: str, number: int, name: str) -> Fraction:
        # seeded by the arguments, so that verdicts are reproducible
        source = random.Random(f"{kind}/{number}/{name}")
        sign = (1, -1)[number] if number < 2 else source.choice((1, -1))
        if kind == "generic":
            low, high = ((0.5, 2.5), (0.5, 2.5), (0.5, 2.5), (0.01, 0.3), (3, 40), (200, 5000))[number]
            return sign * Fraction(source.randrange(int(low * _ODD), int(high * _ODD)), _ODD)
        if kind == "whole":
            return Fraction(source.randrange(1, 4 + 3 * number))
        around = source.choice(pool) * source.choice((1, 1, 1, 2, -1, Fraction(1, 2)))
        step = source.choice((0, 1, -1, 2, -2, Fraction(1, 3), Fraction(-5, 2)))
        if kind == "near":
            return around + step
        scale = _SCALES[(number + source.choice((0, 0, 3))) % len(_SCALES)]
        far = Fraction(source.randrange(-scale // 4, scale))
        return source.choice((far, far, around + step, around + scale))

    for kind, count in (("generic", _GENERIC), ("whole", _WHOLE), ("near", _NEAR), ("turning", turning)):
        for number in range(count):
            point = {name: draw(kind, number, name) for name in letters}
            yield {name: Fraction(math.floor(value)) if name in whole else value for name, value in point.items()}
    if kinds & _COUNTED:
        yield from _counted(letters, pool)


def _counted(letters: Sequence[str], pool: Sequence[Fraction]) -> Iterator[LetterValues]:
    """Yield points for functions of integers: small integers, integers with a common factor, and integers near
    multiples of the constants in ``pool``."""
    source = random.Random("counted")
    sizes: list[Fraction] = [constant for constant in pool if constant.denominator == 1 and constant > 1]
    for number in range(_IN_TURN):
        common = source.choice([Fraction(1), Fraction(2), Fraction(3), *sizes]) if number % 3 == 2 else Fraction(1)
        yield {name: common * (source.randrange(1, 13) if i else number) for i, name in enumerate(letters)}
    for size in sizes[:_MOST_SIZES]:
        for halves, step in itertools.product((-2, 1, 2, 4), (-1, 0, 1)):
            first = Fraction(math.floor(size * halves / 2) + step)
            others = (size * source.randrange(1, 4), Fraction(source.randrange(1, 13)))
            yield {name: source.choice(others) if i else first for i, name in enumerate(letters)}


def _nodes(expr: Any) -> Iterator[Any]:
    from sympy import preorder_traversal

    yield from preorder_traversal(expr)


def _constants_in(expr: Any) -> set[Fraction]:
    """Return the constants in an expression, except 0 and huge values. A subexpression without variables, such as the
    2^5 of x + 2^5, is one constant. Inexact values are rounded."""
    if not getattr(expr, "is_number", False) and expr.args:
        return set().union(*map(_constants_in, expr.args))
    if expr.free_symbols:
        return set()
    try:
        value = Values({}, 15).of(expr)
    except (UndefinedError, UnknownError, UnreadableError):
        return set()
    exact = value if isinstance(value, Fraction) else Fraction(int(value.context.nint(value)))
    return {exact} if exact and abs(exact) < _HUGE else set()
