"""Compares a program's output or return values with expected values. Numbers are compared by value, anything else
exactly.

Printed tokens are compared outside the sandbox. Returned values are compared in the testing process inside the sandbox.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing in a sandbox takes longer than creating the sandbox
if TYPE_CHECKING:
    from typing import Any

LONGEST_EXPONENT = 6  # maximum digits of an exponent


def same_token(seen: str, expected: str, tolerance: float | None, case: bool) -> bool:
    """Return whether a printed token matches the expected token.

    Equal texts match, and so do decimal numbers of equal value (``3.0`` and ``3``). If the expected number has a point
    or an exponent, numbers with ``|seen - expected| <= tolerance * max(1, |expected|)`` match as well. If the expected
    number is an integer, only equal numbers match. The texts ``nan`` and ``inf``, and numbers with leading zeros or a
    plus sign, are compared as text.

    Args:
        tolerance: tolerance for decimal numbers; 0 accepts only equal values. None compares all tokens as text.
        case: whether upper and lower case are distinguished.

    >>> [same_token(seen, "0.5", 1e-6, True) for seen in ("0.5000004", "5e-1", ".5", "0.50001")]
    [True, True, True, False]
    >>> [same_token(seen, "7", 1e-6, True) for seen in ("7.0", "7.0000001", "007")]
    [True, False, False]
    """
    if seen == expected or (not case and seen.casefold() == expected.casefold()):
        return True
    if tolerance is None:
        return False
    a, b = _decimal(seen), _decimal(expected)
    if a is None or b is None:
        return False
    return a == b or (not _is_whole(expected) and _near(float(seen), float(expected), tolerance))


def same_value(seen: Any, expected: Any, tolerance: float | None, case: bool) -> bool:
    """Return whether a returned value matches the expected value, which is JSON data.

    Numbers and texts are compared as in Python, with the tolerance if the expected value is a float. A tuple matches a
    list with the same members. The dictionary key 1 matches "1", since JSON keys are texts. NaN matches NaN. An object
    that is not plain data matches no value.

    >>> same_value((1, 0.3333333), [1.0, 1 / 3], 1e-6, True), same_value([1], [2], 1e-6, True)
    (True, False)
    """
    if isinstance(expected, list):
        return (
            isinstance(seen, list | tuple)
            and len(seen) == len(expected)
            and all(same_value(a, b, tolerance, case) for a, b in zip(seen, expected, strict=True))
        )
    if isinstance(expected, dict):
        named = {_key(key): value for key, value in seen.items()} if isinstance(seen, dict) else None
        return named is not None and (
            named.keys() == expected.keys()
            and all(same_value(named[key], value, tolerance, case) for key, value in expected.items())
        )
    if isinstance(expected, str):
        return isinstance(seen, str) and (seen == expected or (not case and seen.casefold() == expected.casefold()))
    if expected is None or not isinstance(seen, int | float):
        return seen is None and expected is None
    if seen == expected or (seen != seen and expected != expected):
        return True
    return isinstance(expected, float) and tolerance is not None and _near(seen, expected, tolerance)


def _near(seen: float, expected: float, tolerance: float) -> bool:
    infinity = float("inf")
    if not abs(expected) < infinity:
        return False
    try:
        return abs(seen - expected) <= tolerance * max(1.0, abs(expected))
    except OverflowError:  # an integer too large for a float
        return False


def _decimal(text: str) -> tuple[bool, str, int] | None:
    """Return the sign, the digits and the power of ten of a decimal number. All spellings of a number give the same
    result. Return None for any other text."""
    # parsed without `re` and `decimal`, which load slowly in every sandbox that imports this module
    mantissa, mark, exponent = text.removeprefix("-").replace("E", "e").partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    leading_zero = len(whole) > 1 and whole[0] == "0"
    if (
        not _digits(whole + fraction)
        or leading_zero
        or (mark and not (_digits(power) and len(power) <= LONGEST_EXPONENT))
    ):
        return None
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return False, "", 0
    kept = digits.rstrip("0")
    return text[0] == "-", kept, int(exponent or "0") - len(fraction) + len(digits) - len(kept)


def _is_whole(text: str) -> bool:
    return _digits(text.removeprefix("-"))


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _key(key: object) -> object:
    """Return a dictionary key as JSON writes it: integers and booleans become texts."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int) else key
