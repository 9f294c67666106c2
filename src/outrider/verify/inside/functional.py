"""Runs tests that are function calls: for given arguments, the program's function must return an expected value.

As in :mod:`outrider.verify.inside.unit`, the tests run in the testing process, so the program never receives expected
values.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]

from outrider.verify.inside.calls import Handle, MissingError, ProgramEnded, TestedProgram, shown
from outrider.verify.inside.compare import same_value
from outrider.verify.inside.namespaces import exit_at
from outrider.verify.inside.plain import Ignoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def verify_calls(tested: TestedProgram, job: dict[str, Any]) -> dict[str, Any]:
    """Run the tests, and return the result in the format of :func:`outrider.verify.inside.unit.verify_tests`.

    Args:
        tested: the program.
        job: a mapping with ``function`` (the function's name, or an empty text), ``cases``, ``tolerance`` and ``case``
            (whether upper and lower case are distinguished). Each of the ``cases`` has ``arguments``, ``spread`` and
            ``expected`` (the accepted values). ``spread`` is usually None. If a test gives a single list, it may be the
            only argument, or its members may be the arguments. ``arguments`` then contains the list, and ``spread`` its
            members.
    """
    stage, at = "load", 0
    try:
        tested.request("load")
        exit_at(signal.SIGXCPU)  # as in unit, since a program may return values that are expensive to read or compare
        method, name = _wanted(tested, job["function"])
        stage = "test"
        for at, (arguments, spread, expected) in enumerate(job["cases"], 1):
            tested.last = ""
            function = _function(tested, method, name)
            given = arguments if spread is None or _takes_one(function, method) else spread
            value = function(*given)
            if not any(same_value(value, right, job["tolerance"], job["case"]) for right in expected):
                return {"stage": stage, "test": at, "error": f"expected {shown(expected[0])}", "seen": tested.last}
    except ProgramEnded:
        return {"stage": stage, "test": at, "gone": True, "seen": tested.last}
    except BaseException as error:  # noqa: BLE001 - every exception in a test means that the test failed
        return {"stage": stage, "test": at, "error": f"{type(error).__name__}: {error}"[:200], "seen": tested.last}
    return {"stage": "passed"}


def _wanted(tested: TestedProgram, name: str) -> tuple[bool, str]:
    """Return whether the function is a method of ``Solution``, and the function's name.

    Raises:
        NameError: the program does not define the function.
    """
    methods, functions, method, function = tested.request("functions")
    if name:
        if name in methods:
            return True, name
        with Ignoring(MissingError):
            tested.request("name", name)
            return False, name
        raise NameError(f"the program defines no function {name}")
    if not methods and not functions:
        raise NameError("the program defines no function")
    return (True, method) if methods else (False, function)


def _function(tested: TestedProgram, method: bool, name: str) -> Any:
    """Return a handle to the function. A method belongs to a new ``Solution`` object, as on LeetCode.

    Raises:
        TypeError: the object with this name is not a function.
    """
    found = tested.request("name", "Solution" if method else name)
    if method:
        found = getattr(found(), name)
    if not isinstance(found, Handle):
        raise TypeError(f"{name} is {shown(found)}, not a function")
    return Handle(tested, found._number, name)


def _takes_one(function: Any, method: bool) -> bool:
    """Return whether a function can take exactly one argument.

    A test may give one list without saying whether the list is the only argument or contains all arguments. A function
    that can take exactly one argument is then called with the whole list. The program learns no expected value from
    this check.
    """
    try:
        code, defaults = function.__code__, function.__defaults__ or ()
        named = int(code.co_argcount) - method
        return named >= 1 and named - len(defaults) <= 1
    except Exception:  # noqa: BLE001 - another kind of callable
        return True
