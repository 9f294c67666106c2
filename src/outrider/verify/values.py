r"""Evaluates an expression at a point: exactly if the value is rational, otherwise to a given precision.

Only worker processes evaluate expressions. An expression may be undefined at a point, such as 1/x at 0. Over the real
numbers, \sqrt{x} is undefined at -1; over the complex numbers, its value is i.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any

from outrider.verify.latex import UnreadableError

LARGEST = (
    1500  # maximum digits before the point or zeros after it; beyond this, neighbouring numbers cannot be distinguished
)
LARGEST_AT_A_POINT = 300  # the same limit for expressions with letters, since these are evaluated at many points
MOST_BITS = 400_000  # maximum bits of an exact number; 10^99999 has 332,193 bits
MOST_BITS_AT_A_POINT = 20_000
MOST_WORK = 4  # maximum bits of all exact numbers together, as a multiple of the limit for one number
MOST_STEPS = 20_000  # maximum steps of one evaluation
MOST_TERMS = 500  # maximum terms of a sum or product that is computed term by term

_TRIGONOMETRIC = {f"{arc}{name}{h}" for arc in ("", "a") for name in ("sin", "cos", "tan") for h in ("", "h")}
_ANALYTIC = _TRIGONOMETRIC | {"exp", "sec", "csc", "cot"}
_DOMAINS: Mapping[str, Callable[[Any], bool]] = {  # domains of functions that are not real everywhere
    "asin": lambda x: abs(x) <= 1,
    "acos": lambda x: abs(x) <= 1,
    "acosh": lambda x: x >= 1,
    "atanh": lambda x: abs(x) < 1,
}


class UndefinedError(Exception):
    """The expression has no value for the given values of its variables."""


class NotRealError(UndefinedError):
    """The expression has no real value for the given values of its variables, but may have a complex value."""


class UnknownError(Exception):
    """There is no rule to evaluate this expression."""


class Values:
    """Evaluates expressions at one point, to a given number of digits.

    Args:
        point: the value of each letter, keyed by the letter's name. If ``i`` has no value, ``i`` is the imaginary unit.
        digits: number of decimal digits of values that are not rational.
        over_complex: whether roots and logarithms of negative numbers have values.
    """

    def __init__(self, point: Mapping[str, Fraction], digits: int, over_complex: bool = False) -> None:
        self.point = dict(point)
        self.context = _context()
        self.context.dps = digits
        self.digits = digits
        self.over_complex = over_complex
        self.span = 0.0
        """The largest absolute log10 of any intermediate number. Cancellation can lose at most this many digits."""
        self._steps = self._bits = 0
        self._largest = LARGEST_AT_A_POINT if point else LARGEST
        self._most_bits = MOST_BITS_AT_A_POINT if point else MOST_BITS

    def of(self, expr: Any) -> Any:
        """Return the value of an expression, as a Fraction or an mpmath number.

        Raises:
            UndefinedError: the expression has no value for the given values of its variables.
            UnknownError: there is no rule for a part of the expression.
            UnreadableError: the value is too large, or its evaluation takes too many steps.
        """
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise UnreadableError("an expression that takes too long")
        try:
            return self._seen(_rules().get(type(expr), Values._other)(self, expr))
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise UndefinedError("a division by zero") from error

    def _seen(self, value: Any) -> Any:
        """Check the size of a value, and return the value."""
        if isinstance(value, Fraction):
            bits = value.numerator.bit_length() + value.denominator.bit_length()
            self._bits += bits if bits > 1000 else 0
            if bits > self._most_bits or self._bits > MOST_WORK * self._most_bits:
                raise UnreadableError("a number too large to distinguish from its neighbours")
            if value:
                size = (value.numerator.bit_length() - value.denominator.bit_length()) * math.log10(2)
                self.span = max(self.span, abs(size))
            return value
        if not self.context.isfinite(value):
            raise UndefinedError("a division by zero")
        if isinstance(value, self.context.mpc) and (value.imag == 0 or not self.over_complex):
            value = value.real
        if value:
            self.span = max(self.span, abs(float(self.context.mag(value))) * math.log10(2))
        if self.span > self._largest:
            raise UnreadableError("a number too large to distinguish from its neighbours")
        return value

    def inexact(self, value: Any) -> Any:
        """Return the value as an mpmath number."""
        if isinstance(value, Fraction):
            return self.context.mpf(value.numerator) / value.denominator
        return value

    def _real(self, value: Any) -> Any:
        if isinstance(value, self.context.mpc):
            raise NotRealError("a complex number in an order")
        return value

    def _whole(self, expr: Any) -> int:
        """Return the value of an argument that must be an integer."""
        value = self._real(self.of(expr))
        nearest = round(value) if isinstance(value, Fraction) else int(self.context.nint(value))
        if value != nearest and (isinstance(value, Fraction) or not self._is_whole(value, nearest)):
            raise UndefinedError("a function of integers at another number")
        return nearest

    def _is_whole(self, value: Any, nearest: int) -> bool:
        """Return whether an inexact number is an integer in all reliable digits."""
        return bool(abs(value - nearest) < self.context.mpf(10) ** (-self.digits // 2))

    # Numbers and letters.

    def _rational(self, expr: Any) -> Fraction:
        return Fraction(int(expr.p), int(expr.q))

    def _pi(self, expr: Any) -> Any:
        return +self.context.pi

    def _exp1(self, expr: Any) -> Any:
        return +self.context.e

    def _imaginaryunit(self, expr: Any) -> Any:
        if not self.over_complex:
            raise NotRealError("an imaginary number")
        return self.context.mpc(0, 1)

    def _symbol(self, expr: Any) -> Any:
        if expr.name in self.point:
            return self.point[expr.name]
        if expr.name == "i":
            return self._imaginaryunit(expr)
        raise UnknownError(f"no value for {expr.name}")

    def _function(self, name: str, values: list[Any]) -> Fraction:
        """Return a value for an unknown function such as f(x); equal arguments always give the same value."""
        if not all(isinstance(v, Fraction) for v in values):
            raise UnknownError(f"{name} of a number that is not exact")
        return Fraction(random.Random(f"{name}{values}").randrange(10007, 50021), 10007)

    # Arithmetic.

    def _add(self, expr: Any) -> Any:
        total: Any = Fraction(0)
        for arg in expr.args:
            value = self.of(arg)
            exact = isinstance(total, Fraction) and isinstance(value, Fraction)
            total = total + value if exact else self.inexact(total) + self.inexact(value)
        return total

    def _mul(self, expr: Any) -> Any:
        total: Any = Fraction(1)
        for arg in expr.args:
            value = self.of(arg)
            exact = isinstance(total, Fraction) and isinstance(value, Fraction)
            total = self._seen(total * value if exact else self.inexact(total) * self.inexact(value))
        return total

    def _unevaluatedexpr(self, expr: Any) -> Any:
        return self.of(expr.args[0])

    def _pow(self, expr: Any) -> Any:
        base, exponent = self.of(expr.args[0]), self.of(expr.args[1])
        if base == 0 and (isinstance(exponent, self.context.mpc) or exponent <= 0):
            raise UndefinedError("a division by zero")
        if isinstance(exponent, Fraction) and exponent.denominator == 1:
            n = exponent.numerator
            if isinstance(base, Fraction):
                bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
                if abs(n) * bits > self._most_bits:
                    raise UnreadableError("a number too large to distinguish from its neighbours")
                return base**n
            return base**n
        if self.over_complex or isinstance(base, self.context.mpc) or base >= 0:
            return self.context.power(self.inexact(base), self.inexact(exponent))
        if (
            expr.args[1].is_Rational and exponent.denominator % 2
        ):  # the real root, as in schools, where mpmath would return a complex root
            root = self.context.power(self.inexact(-base), self.inexact(exponent))
            return -root if exponent.numerator % 2 else root
        raise NotRealError("an even root of a negative number")

    # Functions.

    def _other(self, expr: Any) -> Any:
        """Evaluate an unknown function, or one of mpmath's functions."""
        from sympy.core.function import AppliedUndef

        name = type(expr).__name__
        if isinstance(expr, AppliedUndef):
            if (rule := _NAMED.get(name)) is not None:
                return rule(self, expr)
            return self._function(name, [self.of(arg) for arg in expr.args])
        if name not in _ANALYTIC or len(expr.args) != 1:
            raise UnknownError(f"no rule for {name}")
        value = self.inexact(self.of(expr.args[0]))
        if not self.over_complex and name in _DOMAINS and not _DOMAINS[name](value):
            raise NotRealError(f"{name} outside its domain")
        return getattr(self.context, name)(value)

    def _log(self, expr: Any) -> Any:
        values = [self.inexact(self.of(arg)) for arg in expr.args]
        if any(v == 0 for v in values):
            raise UndefinedError("a logarithm of zero")
        if not self.over_complex and any(v < 0 for v in values):
            raise NotRealError("a logarithm of a negative number")
        logs = [self.context.log(v) for v in values]
        return logs[0] if len(logs) == 1 else logs[0] / logs[1]

    def _abs(self, expr: Any) -> Any:
        return abs(self.of(expr.args[0]))

    def _sign(self, expr: Any) -> Any:
        value = self._real(self.of(expr.args[0]))
        return Fraction((value > 0) - (value < 0))

    def _extreme(self, expr: Any, sign: int) -> Any:
        values = [self._real(self.of(arg)) for arg in expr.args]
        best = values[0]
        for value in values[1:]:
            if sign * (self.inexact(value) - self.inexact(best)) > 0:
                best = value
        return best

    # Functions of integers.

    def _floor(self, expr: Any) -> Fraction:
        return self._rounded(expr, math.floor, self.context.floor)

    def _ceiling(self, expr: Any) -> Fraction:
        return self._rounded(expr, math.ceil, self.context.ceil)

    def _rounded(self, expr: Any, exact: Callable[[Fraction], int], inexact: Callable[[Any], Any]) -> Fraction:
        value = self._real(self.of(expr.args[0]))
        if isinstance(value, Fraction):
            return Fraction(exact(value))
        nearest = int(self.context.nint(value))
        return Fraction(nearest if self._is_whole(value, nearest) else int(inexact(value)))

    def _mod(self, expr: Any) -> Fraction:
        whole, modulus = (self._real(self.of(arg)) for arg in expr.args)
        if not isinstance(whole, Fraction) or not isinstance(modulus, Fraction):
            raise UndefinedError("a remainder of numbers that are not exact")
        return whole % modulus

    def _gcd(self, expr: Any) -> Fraction:
        return Fraction(math.gcd(*self._naturals(expr)))

    def _lcm(self, expr: Any) -> Fraction:
        return Fraction(math.lcm(*self._naturals(expr)))

    def _naturals(self, expr: Any) -> list[int]:
        numbers = [self._whole(arg) for arg in expr.args]
        if min(numbers) < 0:
            raise UndefinedError("a common divisor or multiple of a negative number")
        return numbers

    def _factorial(self, expr: Any) -> Fraction:
        n = self._whole(expr.args[0])
        if n < 0:
            raise UndefinedError("a factorial of a negative number")
        if n > 20 and n * (math.log2(n) - 1.5) > self._most_bits:
            raise UnreadableError("a number too large to distinguish from its neighbours")
        return Fraction(math.factorial(n))

    def _binomial(self, expr: Any) -> Fraction:
        n, k = (self._whole(arg) for arg in expr.args)
        if n < 0:
            raise UndefinedError("a binomial coefficient of a negative number")
        if min(abs(k), abs(n - k)) * (n.bit_length() + 1) > self._most_bits:
            raise UnreadableError("a number too large to distinguish from its neighbours")
        return Fraction(math.comb(n, k) if 0 <= k <= n else 0)

    def _written_out(self, expr: Any, total: Any, join: Callable[[Any, Any], Any]) -> Any:
        if len(expr.limits) != 1 or len(expr.limits[0]) != 3 or not all(b.is_finite for b in expr.limits[0][1:]):
            raise UnknownError("a sum without an end")
        name, (first, last) = expr.limits[0][0].name, (self._whole(bound) for bound in expr.limits[0][1:])
        if last < first:  # an empty sum has no value, since a formula for the sum from 0 to n may not hold at n = -1
            raise UndefinedError("a sum that ends before it begins")
        if last - first >= MOST_TERMS:
            raise UnreadableError(f"a sum or product of more than {MOST_TERMS} terms")
        before = self.point.get(name)
        for n in range(first, last + 1):
            self.point[name] = Fraction(n)
            value = self.of(expr.function)
            exact = isinstance(total, Fraction) and isinstance(value, Fraction)
            total = join(total, value) if exact else join(self.inexact(total), self.inexact(value))
        if before is None:
            self.point.pop(name, None)
        else:
            self.point[name] = before
        return total


_NAMED: Mapping[str, Callable[[Values, Any], Any]] = {"gcd": Values._gcd, "lcm": Values._lcm}


@cache
def _rules() -> dict[type, Callable[[Values, Any], Any]]:
    """Return the evaluation rule for each kind of sympy node."""
    import sympy
    from sympy.core import numbers

    numbers_of = (numbers.Rational, numbers.Integer, numbers.Zero, numbers.One, numbers.NegativeOne, numbers.Half)
    return dict.fromkeys(numbers_of, Values._rational) | {
        numbers.Pi: Values._pi,
        numbers.Exp1: Values._exp1,
        numbers.ImaginaryUnit: Values._imaginaryunit,
        sympy.Symbol: Values._symbol,
        sympy.Dummy: Values._symbol,
        sympy.Add: Values._add,
        sympy.Mul: Values._mul,
        sympy.Pow: Values._pow,
        sympy.UnevaluatedExpr: Values._unevaluatedexpr,
        sympy.log: Values._log,
        sympy.Abs: Values._abs,
        sympy.sign: Values._sign,
        sympy.Max: partial(Values._extreme, sign=1),
        sympy.Min: partial(Values._extreme, sign=-1),
        sympy.floor: Values._floor,
        sympy.ceiling: Values._ceiling,
        sympy.Mod: Values._mod,
        sympy.factorial: Values._factorial,
        sympy.binomial: Values._binomial,
        sympy.Sum: partial(Values._written_out, total=Fraction(0), join=operator.add),
        sympy.Product: partial(Values._written_out, total=Fraction(1), join=operator.mul),
    }


@cache
def _context() -> Any:
    """Return a separate mpmath context, so that its precision does not affect other code in the process."""
    from mpmath import MPContext  # type: ignore[import-untyped]

    return MPContext()
