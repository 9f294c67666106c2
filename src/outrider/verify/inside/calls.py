"""Lets tests call the tested program, which runs in another process. This module contains the code for both processes.

Results are returned as data: numbers, texts, and collections of them. An object of a class that the program defines
stays in the program's process, and the tests receive a handle to the object. A handle can be called and iterated, and
its attributes can be read and set. It equals only itself. Therefore, no ``__eq__``, ``__bool__`` or ``__class__`` of
the program affects a test.
"""

from __future__ import annotations
import __future__

import builtins
import os
import sys

from outrider.verify.inside.plain import LARGEST, Frames, Ignoring, dumps, loads
from outrider.verify.inside.programs import compiled, module_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SHOWN = 200  # maximum characters of a value, or of a message, in a report
LONGEST_SHOWN = 4300  # maximum digits of an integer that is written out
FEATURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


class ProgramEnded(BaseException):
    """The tested program ended. The class is a BaseException, so that ``except Exception`` in a test does not catch
    it."""


class Unsendable(BaseException):
    """A test passes the program an object that is not plain data and therefore cannot be sent to the program's
    process."""


class MissingError(Exception):
    """The tested program does not define the requested name."""


class TestedProgram:
    """The interface through which the tests use the tested program.

    Attributes:
        last: the last call and its outcome as text, for reports.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.last = ""

    def request(self, what: str, *arguments: Any) -> Any:
        """Send a request to the program's process; return the result, or raise the program's exception.

        Raises:
            ProgramEnded: the program ended before it replied.
            Unsendable: an argument is not plain data (numbers, texts, and collections of them).
            ValueError, TypeError, …: the program's reply is not valid.
        """
        try:
            message = dumps((what, *arguments), other=_number_of)
        except TypeError as error:
            raise Unsendable(f"a test hands over what is no plain data: {error}") from error
        try:
            self._frames.send(message)
            kind, value = loads(self._frames.receive(LARGEST), other=lambda number: Handle(self, number))
        except EOFError as error:
            raise ProgramEnded from error
        if kind == "value":
            return value
        if kind == "missing":
            raise MissingError
        name, text = value
        known = getattr(builtins, str(name), None)
        ends = known in (StopIteration, StopAsyncIteration)  # they would end a loop or map() of a test, and so pass it
        if isinstance(known, type) and issubclass(known, Exception) and not ends:
            raise known(str(text)[:SHOWN])
        raise RuntimeError(f"{name}: {text}"[:SHOWN])

    def call(self, name: str, number: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the program, and remember the call for reports."""
        written = [shown(a) for a in arguments] + [f"{key}={shown(a)}" for key, a in named.items()]
        call = f"{name}({', '.join(written)})"[:SHOWN]
        self.last = f"{call} did not return"
        try:
            value = self.request("call", number, arguments, named)
        except Exception as error:
            self.last = f"{call} raised {type(error).__name__}: {shown(str(error))}"
            raise
        self.last = f"{call} returned {shown(value)}"
        return value


class Handle:
    """Represents an object that stayed in the tested program's process."""

    __slots__ = ("_name", "_number", "_tested")

    def __init__(self, tested: TestedProgram, number: int, name: str = "") -> None:
        for slot, value in (("_tested", tested), ("_number", number), ("_name", name or f"object {number}")):
            # not `self.x = ...`, since __setattr__ of this class sets attributes of the object in the program
            object.__setattr__(self, slot, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._tested.call(self._name, self._number, arguments, named)

    def __getattr__(self, name: str) -> Any:
        value = self._tested.request("get", self._number, name)
        return Handle(self._tested, value._number, f"{self._name}.{name}") if isinstance(value, Handle) else value

    def __setattr__(self, name: str, value: Any) -> None:
        self._tested.request("set", self._number, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tested.request("list", self._number))

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._tested.request("list", self._number))

    def __getitem__(self, key: Any) -> Any:
        return self._tested.request("item", self._number, key)

    def __repr__(self) -> str:
        return f"<{self._name} of the tested program>"


def _number_of(value: Any) -> int:
    if isinstance(value, Handle):
        number: int = value._number
        return number
    raise TypeError(f"a {type(value).__name__}")


def shown(value: object) -> str:
    """Return the shortened ``repr`` of a value."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(LONGEST_SHOWN)  # writing all digits of a huge integer would be too slow
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"<{type(value).__name__} too large to write>"
    finally:
        sys.set_int_max_str_digits(before)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def answer_calls(prefix: str, source: str, frames: Frames) -> None:
    """Run in the program's process: load the program, then reply to requests until the pipe closes."""
    module = module_of(source, "solution")  # so code under `if __name__ == "__main__"` does not run
    held: list[Any] = []
    me = os.getpid()

    def hold(value: Any) -> int:
        held.append(value)
        return len(held) - 1

    def do(what: str, *arguments: Any) -> Any:
        if what == "load":
            for code in parts(prefix, source, module.__file__):
                exec(code, module.__dict__)
            return None
        if what == "name":
            return module.__dict__[arguments[0]]
        if what == "functions":
            return functions_of(module)
        target = held[arguments[0]]
        if what == "call":
            return target(*arguments[1], **arguments[2])
        if what == "set":
            return setattr(target, arguments[1], arguments[2])
        if what == "get":
            return getattr(target, arguments[1])
        return list(target) if what == "list" else target[arguments[1]]

    while True:
        what, *arguments = loads(frames.receive(1 << 62), other=held.__getitem__)
        if what == "name" and arguments[0] not in module.__dict__:
            frames.send(dumps(("missing", None)))
            continue
        try:
            reply = dumps(("value", do(what, *arguments)), other=hold)
        except BaseException as error:  # noqa: BLE001 - including SystemExit of a function
            reply = dumps(("raised", (type(error).__name__, _text(error))))
        if os.getpid() != me:
            return  # this is a copy that the program has forked; only the original process may reply
        frames.send(reply)


def parts(prefix: str, source: str, file: str) -> list[Any]:
    """Compile a program and the code before it (``prefix``). They become two code objects if each compiles alone,
    otherwise one.

    A program that begins with imports from ``__future__`` compiles only separately.
    """
    if prefix:
        with Ignoring(SyntaxError, ValueError):
            first = compiled(prefix, "prefix")
            return [first, compiled(source, file, first.co_flags & FEATURES)]
    return [compiled(prefix + source, file)]


def functions_of(module: Any) -> tuple[list[str], list[str], str, str]:
    """Return the public methods of class ``Solution``, the program's functions, the main method and the main function.

    The main method is the last one that no other method uses. The main function is the last one that no other function
    uses.
    """
    solution = getattr(module, "Solution", None)
    methods = {n: m for n, m in vars(solution).items() if _is_public(n, m)} if isinstance(solution, type) else {}
    here = {n: f for n, f in vars(module).items() if getattr(f, "__module__", "") == module.__name__}
    own = {n: f for n, f in here.items() if _is_public(n, f)}
    return list(methods), list(own), _main(methods), _main(own)


def _is_public(name: str, value: Any) -> bool:
    function = getattr(value, "__func__", value)  # the function of a static method
    return not name.startswith("_") and callable(function) and not isinstance(function, type)


def _main(functions: dict[str, Any]) -> str:
    names = {name: _names_in(_code_of(function)) for name, function in functions.items()}
    alone = [one for one in functions if not any(one in named for other, named in names.items() if other != one)]
    return (alone or list(functions) or [""])[-1]


def _code_of(function: Any) -> Any:
    function = getattr(function, "__func__", function)
    return getattr(getattr(function, "__wrapped__", function), "__code__", None)


def _names_in(code: Any) -> set[str]:
    """Return the names that a code object uses, including names in nested functions."""
    if code is None:
        return set()
    inner = [_names_in(part) for part in code.co_consts if hasattr(part, "co_consts")]
    return set(code.co_names).union(*inner)


def _text(error: BaseException) -> str:
    with Ignoring(BaseException):
        if isinstance(error, SyntaxError):
            return f"{error.msg} (line {error.lineno})"
        return str(error)[:SHOWN]
    return ""


def leave() -> None:
    """End this process without running exit handlers, which may hang."""
    os._exit(0)
