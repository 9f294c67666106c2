"""The error that is raised if a component breaks a law (a property that Outrider tests), and functions that raise this
error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_LONGEST = 120  # maximum number of characters of a value in a message


class LawError(AssertionError):
    """Raised when a component breaks a law, which is a property that Outrider tests.

    :func:`breaks` adds attributes that are not known yet when the error is raised.

    Attributes:
        found: description of the wrong result, or of the exception that the component raised.
        law: name of the law.
        situation: description of the input with which the law was broken, or "" if the law needs no input.
        component: name of the component's class.

    >>> print(LawError("2 rollouts, expected 1", law="budget", situation="one problem", component="Retry"))
    Retry breaks 'budget' in 'one problem': 2 rollouts, expected 1
    """

    def __init__(self, found: str, law: str = "", situation: str = "", component: str = "") -> None:
        super().__init__(found)
        self.found, self.law, self.situation, self.component = found, law, situation, component

    def __str__(self) -> str:
        place = f" in {self.situation!r}" if self.situation else ""
        return f"{self.component or 'the component'} breaks {self.law or 'a law'!r}{place}: {self.found}"


@contextmanager
def breaks(law: str = "", situation: str = "", component: str = "") -> Iterator[None]:
    """Context manager that converts every exception to a :class:`LawError` with a law, a situation and a component.

    If nested context managers give different values, those of the innermost one are kept. An exception from the
    component also breaks the law, and becomes the cause of the :class:`LawError`.

    >>> try:
    ...     with breaks("metrics", "empty batch", "Retry"):
    ...         1 / 0
    ... except LawError as error:
    ...     print(error)
    Retry breaks 'metrics' in 'empty batch': it raised ZeroDivisionError: division by zero
    """
    try:
        yield
    except LawError as error:
        error.law, error.situation = error.law or law, error.situation or situation
        error.component = error.component or component
        raise
    except AssertionError as error:
        raise LawError(str(error) or "the law does not hold", law, situation, component) from error
    except Exception as error:
        raise LawError(f"it raised {type(error).__name__}: {error}", law, situation, component) from error


def require(holds: bool, found: str) -> None:
    """Raise :class:`LawError` with the message ``found`` unless the condition holds."""
    if not holds:
        raise LawError(found)


def require_equal(found: Any, expected: Any, what: str) -> None:
    """Raise :class:`LawError` with the first difference between two values, unless they are equal.

    >>> require_equal({"a": [1, 2]}, {"a": [1, 3]}, "the plan of step 2")
    Traceback (most recent call last):
    outrider.testing.law.LawError: the component breaks 'a law': the plan of step 2 ['a'][1] is 2, expected 3
    """
    if found != expected:
        place, left, right = _difference(found, expected)
        raise LawError(f"{what}{f' {place}' if place else ''} is {_short(left)}, expected {_short(right)}")


def _difference(found: Any, expected: Any, place: str = "") -> tuple[str, Any, Any]:
    """Return the path to the first difference between two nested values, and both values at this path."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping) and list(found) == list(expected):
        keys: Sequence[Any] = list(found)
    elif _row(found) and _row(expected) and len(found) == len(expected):
        keys = range(len(found))
    else:
        return place, found, expected
    key = next((key for key in keys if found[key] != expected[key]), None)
    return (place, found, expected) if key is None else _difference(found[key], expected[key], f"{place}[{key!r}]")


def _row(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
