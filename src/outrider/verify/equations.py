r"""Finds the sides of an equation that state the requested value, and detects equivalent equations.

For the gold answer 7, the first side of m+n = 3+4 = 7 is the requested quantity. The other sides state its value, and
each of them must equal the gold answer. For the gold answer 4, x^2 = 4 states no value, since the equation must still
be solved for x.

Two equations are equivalent if their differences (left side minus right side) are proportional, as in y = 3x-2 and
6x-2y = 4. The factor must be a number, since other factors may add roots: (x-1)^2 = 0 is not equivalent to x-1 = 0. No
equation is equivalent to 0 = 0.
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
_LENGTHS = frozenset("zw")  # |z| = 5 states the length of z, but |x| = 5 must still be solved


def claimed(text: str, gold: str, name: str = "") -> list[str]:
    r"""Return the sides of an equation that state the requested value. The list is empty for an identity or an unsolved
    equation.

    Args:
        text: an equation, or a chain of equations.
        gold: the gold answer.
        name: the quantity that the gold answer names; empty if the gold answer names no quantity. The value of another
            quantity is not an answer.

    >>> claimed("m+n = 3+4 = 7", "7"), claimed("x^{2} = 4", "4"), claimed("y = 7", "7", "x"), claimed("7 = 7", "7")
    (['3+4', '7'], [], [], [])
    """
    every = sides(text)
    values = [side for side in every if not _is_asked_for(side, gold)]
    asked = [side for side in every if side not in values]
    if name and any(re.sub(r"[\s{}]", "", side) != name for side in asked):
        return []
    if not asked and all(map(_BARE_NUMBER.fullmatch, every)):
        return []  # 7 = 7 states nothing about the requested quantity
    return [] if any(map(_is_unsolved, values)) else values


def _is_asked_for(side: str, gold: str) -> bool:
    """Return whether a side is the requested quantity, so that the other sides state its value."""
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
    r"""Return whether one side of an equation must still be solved for its only variable, as in x^2 = 4. In
    \sin x = 1/2, f(2) = 1 and \sigma^2 = 9, the left side is the requested quantity itself."""
    from sympy import Abs
    from sympy.core.function import AppliedUndef
    from sympy.functions.elementary.trigonometric import TrigonometricFunction

    free = sorted(symbol.name for symbol in getattr(whole, "free_symbols", ()))
    if len(free) != 1 or whole.has(AppliedUndef, TrigonometricFunction):
        return False
    return free != ["sigma"] and not (whole.has(Abs) and free[0] in _LENGTHS)


def _is_number(whole: Any) -> bool:
    """Return whether a side is a number. Such a side must equal the gold answer."""
    from sympy import Expr, Integral, Limit
    from sympy.core.function import AppliedUndef

    return isinstance(whole, Expr) and not whole.free_symbols and not whole.has(AppliedUndef, Integral, Limit)


def letters(text: str) -> set[str]:
    r"""Return the variable names in a text. Each letter of a product is a separate name.

    >>> sorted(letters(r"2x+\sin ab")), letters(r"\frac{1}{2}")
    (['a', 'b', 'x'], set())
    """
    found = (match[0] for match in _LETTERS.finditer(re.sub(r"\\(?:begin|end)\{[^{}]*\}", "", text)))
    return {letter for name in found for letter in ([name] if "{" in name or "\\" in name else name)}


def last_of_chain(text: str) -> str:
    """Return the last side of a chain of equalities between names and numbers, such as 3 for 1 + 2 = x = 3. For any
    other text, return an empty string.

    >>> last_of_chain("1 + 2 = x = 3"), last_of_chain("x + y = 3")
    ('3', '')
    """
    every = sides(text)
    bare = [re.sub(r"\\[A-Za-z]+", "", side) for side in every]
    named = (is_name(side) or not re.search("[A-Za-z]", rest) for side, rest in zip(every, bare, strict=True))
    return every[-1] if every and all(named) else ""


def relates_letters(equation: Sequence[str]) -> bool:
    """Return whether an equation relates several letters, so that it can be solved for any of these letters.

    Raises:
        UnreadableError: a side cannot be read.
    """
    from sympy import Symbol
    from sympy.core.function import AppliedUndef

    difference = _difference(equation)
    return hasattr(difference, "atoms") and len(difference.atoms(Symbol, AppliedUndef)) > 1


def same_equation(gold: Sequence[str], answer: Sequence[str]) -> bool:
    """Return whether two equations are equivalent, that is, whether the differences between their sides are
    proportional.

    Raises:
        UnreadableError: a side cannot be read.
    """
    return bool(proportional(_difference(gold), _difference(answer)))


def _difference(equation: Sequence[str]) -> Any:
    left, right = equation
    return expression(f"({left})-({right})")
