r"""Equations: which sides claim to be the requested value, and which equations are equivalent.

For the gold answer 7, the first side of m+n = 3+4 = 7 is the requested quantity. The other sides claim to be its value,
and each of them must be right. For the gold answer 4, x^2 = 4 claims no value: it is still to be solved for x.

Two equations are equivalent if their differences of sides are proportional: y = 3x-2 and 6x-2y = 4. Multiplying by
anything but a number may add roots, so (x-1)^2 = 0 is not x-1 = 0. 0 = 0 is equivalent to no equation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from outrider.verify.latex import UnreadableError, expression
from outrider.verify.nodes import is_name, sides
from outrider.verify.points import proportional
from outrider.verify.symbols import GREEK

_LETTERS = re.compile(
    r"(?<![A-Za-z\\])(?:[A-Za-z]+(?:_\{[^{}]*\})?)|\\vartheta_\{[0-9]+\}|\\text\s*\{[^{}]*[A-Za-z][^{}]*\}"
    rf"|\\(?!pi)(?:{GREEK})(?![A-Za-z])"
)
_CALL = re.compile(r"[A-Za-z]\([^()]*\)")
_BARE_NUMBER = re.compile(r"[\s(]*[-+]?[0-9][0-9.,]*[\s)]*")
_LENGTHS = frozenset("zw")  # |z| = 5 states the length of z, but |x| = 5 is still to be solved


def claimed(text: str, gold: str, name: str = "") -> list[str]:
    r"""The sides of an equation that claim to be the gold value; empty for an identity or an unsolved equation.

    Args:
        text: an equation, or a chain of equations.
        gold: the gold answer.
        name: the quantity that the gold answer names; the value of another quantity is not an answer.

    >>> claimed("m+n = 3+4 = 7", "7"), claimed("x^{2} = 4", "4"), claimed("y = 7", "7", "x"), claimed("7 = 7", "7")
    (['3+4', '7'], [], [], [])
    """
    every = sides(text)
    values = [side for side in every if not _is_asked_for(side, gold)]
    asked = [side for side in every if side not in values]
    if name and any(re.sub(r"[\s{}]", "", side) != name for side in asked):
        return []
    if not asked and all(map(_BARE_NUMBER.fullmatch, every)):
        return []  # 7 = 7 says nothing about the requested quantity
    return [] if any(map(_is_unsolved, values)) else values


def _is_asked_for(side: str, gold: str) -> bool:
    """Whether a side is the requested quantity, whose value the other sides state."""
    if is_name(side):
        return not is_name(gold)
    if _CALL.fullmatch(side):
        return True
    if not letters(side) or letters(side) & letters(gold):
        return False
    try:
        whole = expression(side)
    except UnreadableError:
        return True  # \triangle ABC, E[X]
    return not _is_one_letter_of_algebra(whole) and not _is_number(whole)


def _is_unsolved(side: str) -> bool:
    try:
        return bool(letters(side)) and _is_one_letter_of_algebra(expression(side))
    except UnreadableError:
        return False


def _is_one_letter_of_algebra(whole: Any) -> bool:
    r"""Whether an expression is to be solved for its only letter, as x^2 and n! are; not \sin x, f(2) or a variance."""
    from sympy import Abs
    from sympy.core.function import AppliedUndef
    from sympy.functions.elementary.trigonometric import TrigonometricFunction

    free = sorted(symbol.name for symbol in getattr(whole, "free_symbols", ()))
    if len(free) != 1 or whole.has(AppliedUndef, TrigonometricFunction):
        return False
    return free != ["sigma"] and not (whole.has(Abs) and free[0] in _LENGTHS)


def _is_number(whole: Any) -> bool:
    """Whether a side is a number, which must then equal the gold answer."""
    from sympy import Expr, Integral, Limit
    from sympy.core.function import AppliedUndef

    return isinstance(whole, Expr) and not whole.free_symbols and not whole.has(AppliedUndef, Integral, Limit)


def letters(text: str) -> set[str]:
    r"""The names in a text; the letters of a product count separately.

    >>> sorted(letters(r"2x+\sin ab")), letters(r"\frac{1}{2}")
    (['a', 'b', 'x'], set())
    """
    found = (match[0] for match in _LETTERS.finditer(re.sub(r"\\(?:begin|end)\{[^{}]*\}", "", text)))
    return {letter for name in found for letter in ([name] if "{" in name or "\\" in name else name)}


def last_of_chain(text: str) -> str:
    """The last side of an equation of names and numbers, as in 1 + 2 = x = 3; else empty.

    >>> last_of_chain("1 + 2 = x = 3"), last_of_chain("x + y = 3")
    ('3', '')
    """
    every = sides(text)
    bare = [re.sub(r"\\[A-Za-z]+", "", side) for side in every]
    named = (is_name(side) or not re.search("[A-Za-z]", rest) for side, rest in zip(every, bare, strict=True))
    return every[-1] if every and all(named) else ""


def relates_letters(equation: Sequence[str]) -> bool:
    """Whether an equation relates several letters, so that it can be solved for any of them.

    Raises:
        UnreadableError: a side cannot be read.
    """
    from sympy import Symbol
    from sympy.core.function import AppliedUndef

    difference = _difference(equation)
    return hasattr(difference, "atoms") and len(difference.atoms(Symbol, AppliedUndef)) > 1


def same_equation(gold: Sequence[str], answer: Sequence[str]) -> bool:
    """Whether two equations are equivalent: their differences of sides are proportional.

    Raises:
        UnreadableError: a side cannot be read.
    """
    return bool(proportional(_difference(gold), _difference(answer)))


def _difference(equation: Sequence[str]) -> Any:
    left, right = equation
    return expression(f"({left})-({right})")
