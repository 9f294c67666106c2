"""Reads the tests of a program in the formats that data sets use, and converts the tests to one format.

An output test is a pair of texts: the input and the expected output. A call test consists of the arguments of a
function call and the accepted return values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from outrider.verify.verifier import text_of

WANTED = (
    'wanted: a list of {"input": …, "output": …}, or {"inputs": […], "outputs": […]}, with "fn_name" where a function '
    "is called, or the JSON text of either"
)
STATEMENTS = "tests that are Python statements are those of the verifier unit_tests"
SHOWN = 60  # maximum characters of a value in an error message
BY_OUTPUT = ("stdin_stdout", "stdin", "stdio", "standard_input")  # possible values of ``type`` or ``testtype``
BY_CALLS = ("functional", "function_call", "call_based")
_NAMES = ("fn_name", "func_name")
_DEFINED = re.compile(r"^[ \t]*def[ \t]+([A-Za-z]\w*)", re.MULTILINE)
_LITERALS = {"True": True, "False": False, "None": None}


class ProgramTests(NamedTuple):
    """The tests of one problem, which are all of one kind.

    Attributes:
        pairs: inputs and expected outputs; empty if the tests are calls.
        calls: one list of three entries per call: the arguments, other possible arguments or None, and the accepted
            return values. There are other possible arguments if a test gives a single list: it may be the only
            argument, or its members may be the arguments.
        function: name of the called function. If empty, the called function is the program's last one that no other
            function uses.
    """

    pairs: list[list[str]]
    calls: list[list[Any]]
    function: str = ""


def read_tests(fields: Mapping[str, Any], name: str) -> ProgramTests:
    """Read the tests in a field of a row.

    A row may name the function in ``starter_code``, or in a field ``fn_name`` or ``func_name``, which may be inside
    ``metadata``.

    Raises:
        ValueError: the tests have an unknown format, or a program that does nothing would pass them.

    >>> read_tests({"tests": '{"inputs": ["1 2"], "outputs": ["3"]}'}, "tests").pairs
    [['1 2', '3']]
    >>> read_tests({"tests": {"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}}, "tests").calls
    [[[1, 2], None, [3, [3]]]]
    """
    held = fields.get(name)
    for _ in range(2):  # twice, since some data sets encode the JSON twice
        held = _from_text(held, name) if isinstance(held, str) else held
    held = _unwrapped(held)
    listed = _listed(held, name) if isinstance(held, Mapping) else held
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"the field {name!r} holds no list of tests but {_shown(held)}; {WANTED}")
    for number, test in enumerate(listed, 1):
        if not isinstance(test, Mapping):
            seen = f"{_shown(test)} as test {number}"
            wanted = STATEMENTS if isinstance(test, str) and "assert" in test else WANTED
            raise ValueError(
                f"the field {name!r} holds {seen}, a test that is no object with input and output; {wanted}"
            )
    named = next(_names(listed, held, fields), "")
    kinds = {_is_called(test, name, number) for number, test in enumerate(listed, 1)}
    if len(kinds) > 1:
        raise ValueError(f"the field {name!r} holds tests of both kinds: calls of a function, and standard input")
    if kinds == {True}:
        return ProgramTests([], _calls(listed, name), named)
    pairs = [[_lines(test, "input", name, at), _lines(test, "output", name, at)] for at, test in enumerate(listed, 1)]
    if not any(output.split() for _, output in pairs):
        raise ValueError(f"no test in {name!r} expects any output, so a program that does nothing would pass")
    return ProgramTests(pairs, [])


def _from_text(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:80]
        raise ValueError(
            f"the field {name!r} holds no list of tests but {_shown(text)}, which is no JSON ({reason}); {WANTED}"
        ) from None


def _unwrapped(held: Any) -> Any:
    """Return the tests under the key ``test_cases`` if the key exists; otherwise the value unchanged."""
    if isinstance(held, Mapping) and isinstance(held.get("test_cases"), list | Mapping):
        return held["test_cases"]
    return held


def _listed(held: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Convert lists of inputs and outputs to a list of tests."""
    plural = "inputs" in held or "outputs" in held
    keys = ("inputs", "outputs") if plural else ("input", "output")
    inputs, outputs = (held.get(key) for key in keys)
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise ValueError(f"the field {name!r} holds no list of tests but an object of {_shown(sorted(held))}; {WANTED}")
    if len(inputs) != len(outputs):
        raise ValueError(f"the field {name!r} holds {len(inputs)} {keys[0]} and {len(outputs)} {keys[1]}")
    shared = {key: held[key] for key in (*_NAMES, "type", "testtype", "metadata") if key in held}
    return [{**shared, "input": given, "output": expected} for given, expected in zip(inputs, outputs, strict=True)]


def _names(listed: Sequence[Mapping[str, Any]], held: Any, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield possible names of the tested function: first those in a test, then those in the field with the tests, then
    those in the rest of the row."""
    for holder in (listed[0], held, fields):
        if isinstance(holder, Mapping):
            metadata = holder.get("metadata")
            if isinstance(metadata, str):
                try:
                    metadata = json.loads(metadata)
                except (ValueError, RecursionError):
                    metadata = None
            for source in (holder, metadata if isinstance(metadata, Mapping) else {}):
                yield from (str(source[key]) for key in _NAMES if source.get(key))
    defined = [one for one in _DEFINED.findall(str(fields.get("starter_code") or "")) if not one.startswith("__")]
    if len(defined) == 1:
        yield defined[0]


def _is_called(test: Mapping[str, Any], name: str, number: int) -> bool:
    """Return whether a test is a call of a function.

    Raises:
        ValueError: the test is of an unknown kind.
    """
    kind = next((test[key] for key in ("type", "testtype") if test.get(key) is not None), None)
    if kind is None:
        return any(test.get(key) for key in _NAMES)
    if kind not in (*BY_OUTPUT, *BY_CALLS):
        wanted = ", ".join((*BY_OUTPUT, *BY_CALLS))
        raise ValueError(f"test {number} of the field {name!r} is of the type {_shown(kind)}; wanted: one of {wanted}")
    return kind in BY_CALLS


def _lines(test: Mapping[str, Any], key: str, name: str, number: int) -> str:
    """Return an input or output as text. If the input or output is a list, its entries are the lines of the text."""
    value = test.get(key)
    if isinstance(value, list) and any(isinstance(line, list) for line in value):
        wanted = "a text, a number, or a list of lines"
        raise ValueError(f"test {number} of the field {name!r}: {key} is {_shown(value)}; wanted: {wanted}")
    try:
        return "\n".join(text_of({key: line}, key) for line in value) if isinstance(value, list) else text_of(test, key)
    except ValueError as error:
        raise ValueError(f"test {number} of the field {name!r}: {error}") from None


def _calls(listed: Sequence[Mapping[str, Any]], name: str) -> list[list[Any]]:
    """Return a list of three entries for each call: the arguments, other possible arguments or None (see
    :func:`_arguments`), and the accepted results."""
    for number, test in enumerate(listed, 1):
        if missing := [key for key in ("input", "output") if key not in test]:
            raise ValueError(f"test {number} of the field {name!r}: no field {missing[0]!r}")
    # APPS and data sets made from it put each value into a one-member list. If all tests do so, both forms are accepted
    wrapped = all(isinstance(test["output"], list) and len(test["output"]) == 1 for test in listed)
    right = [_expected(test["output"], wrapped, isinstance(test["input"], str)) for test in listed]
    if all(values[0] is None for values in right):
        raise ValueError(f"no test in {name!r} expects any value, so a function that does nothing would pass")
    given = [_arguments(test["input"], name, number) for number, test in enumerate(listed, 1)]
    return [[*arguments, values] for arguments, values in zip(given, right, strict=True)]


def _arguments(given: Any, name: str, number: int) -> tuple[list[Any], list[Any] | None]:
    """Return the arguments of a call, and other possible arguments or None. There are other possible arguments if a
    text contains a single list: it may be the only argument, or its members may be the arguments.

    ``given`` is a list of the arguments, a text with one argument per line in JSON, or the only argument.
    """
    if not isinstance(given, str):
        return (given, None) if isinstance(given, list) else ([given], None)
    lines = [line for line in given.split("\n") if line.strip()]
    for parts in (lines, [given] if lines else []):
        try:
            values = [json.loads(part) for part in parts]
        except (ValueError, RecursionError):
            continue
        return values, values[0] if len(values) == 1 and isinstance(values[0], list) else None
    raise ValueError(
        f"test {number} of the field {name!r} calls a function with {_shown(given)}; wanted: a list of arguments, or "
        "the JSON of one argument a line"
    )


def _expected(output: Any, wrapped: bool, as_text: bool) -> list[Any]:
    """Return the accepted return values of a call."""
    values = [output[0], output] if wrapped else [output]
    if not isinstance(values[0], str):
        return values
    text = values[0]
    try:
        value = _LITERALS[text.strip()] if text.strip() in _LITERALS else json.loads(text)
    except (ValueError, RecursionError):
        return values
    return [value] if as_text else [*values, value]


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
