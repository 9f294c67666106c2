"""Verifies a program in a sandbox, by its output or by tests of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from outrider.record import Verdict, correct, incorrect
from outrider.record.verdict import Outcome
from outrider.verify.inside.compare import same_token
from outrider.verify.isolation import Isolation
from outrider.verify.sandbox import (
    MEMORY_RAN_OUT,
    Limits,
    ProgramFaultError,
    ProgramResult,
    Programs,
    Sandbox,
    SandboxError,
)
from outrider.verify.sandbox_choice import find_way

Same = Callable[[str, str], bool]  # compares a printed token with the expected token

# LeetCode imports these names before a solution, so solutions seldom import them.
PRELUDE = """import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, sys, typing
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import *
"""  # the last line restores the builtin pow, which math replaces
SHOWN = 300  # maximum characters of output that a verdict shows
UNSCORABLE = float("nan")
KILLED = -9


class ProgramCheck:
    """Runs programs in a sandbox with limits.

    If the program fails, the verdict is ``incorrect``. If the machine is too busy, the verdict is ``timeout``. If the
    sandbox fails, the verdict is ``error``. Verdicts of ``timeout`` and ``error`` have no score.

    Raises:
        UserError: no sandbox works on this machine, but ``isolation`` is ``required``.
    """

    def __init__(self, limits: Limits, isolation: Isolation) -> None:
        self._limits = limits
        self._isolation = isolation

    def prepare(self) -> None:
        """Find the kind of sandbox that this machine supports, before the time limit of a verdict starts."""
        find_way(self._isolation)

    def by_output(self, source: str, pairs: Sequence[tuple[str, str]], tolerance: float | None, case: bool) -> Verdict:
        """Verify a program by its output. ``pairs`` contains the inputs with their expected outputs.

        Tokens are compared by :func:`outrider.verify.inside.compare.same_token`.
        """
        return self._caught(lambda: self._by_output(source, pairs, partial(same_token, tolerance=tolerance, case=case)))

    def by_calls(self, source: str, calls: Mapping[str, Any]) -> Verdict:
        """Verify a program by what one of its functions returns (see
        :func:`outrider.verify.inside.functional.verify_calls`)."""
        planned = {"tests": [""] * len(calls["cases"]), "setup": 0, "calls": calls}
        return self._caught(lambda: self._by_tests(source, PRELUDE, planned))

    def by_tests(self, source: str, prefix: str, planned: Mapping[str, Any]) -> Verdict:
        """Verify a program by tests that :func:`outrider.verify.unit_names.plan` has prepared."""
        return self._caught(lambda: self._by_tests(source, prefix, planned))

    def _caught(self, tried: Callable[[], Verdict]) -> Verdict:
        try:
            return tried()
        except ProgramFaultError as error:
            return incorrect(detail=str(error))
        except TimeoutError:
            limit = self._limits.seconds
            return Verdict(Outcome.TIMEOUT, UNSCORABLE, detail=f"not done after {limit:g} s on a busy machine")
        except SandboxError as error:
            return Verdict(Outcome.ERROR, UNSCORABLE, detail=str(error))

    def _by_output(self, source: str, pairs: Sequence[tuple[str, str]], same: Same) -> Verdict:
        with Programs(source, self._limits, find_way(self._isolation)) as sandbox:
            for number, (given, expected) in enumerate(pairs, 1):
                finished = sandbox.run(given.encode())
                if wrong := what_is_wrong(finished, expected, same):
                    return incorrect(detail=f"test {number} of {len(pairs)}: {wrong}")
        return correct(detail=f"{len(pairs)} tests")

    def _by_tests(self, source: str, prefix: str, planned: Mapping[str, Any]) -> Verdict:
        job = {"kind": "tests", "prefix": prefix, "source": source}
        with Sandbox(job, self._limits, find_way(self._isolation)) as sandbox:
            sandbox.send(planned)
            result = sandbox.receive()
            if result.get("status") == KILLED and not result["used_up"] and sandbox.memory_ran_out:
                raise SandboxError(MEMORY_RAN_OUT)
        return verdict_of(result, planned, self._limits.cpu_seconds)


def what_is_wrong(finished: ProgramResult, expected: str, same: Same) -> str:
    """Return the reason why a run of the program fails its test, or an empty text if the run passes."""
    if finished.used_up:
        return "used up its CPU time"
    if finished.full:
        return "wrote more than the limit of output"
    if finished.status:
        last = finished.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"ended with status {finished.status}" + (f": {short(last[0])}" if last else "")
    seen, right = finished.stdout.decode(errors="replace").split(), expected.split()
    both = min(len(seen), len(right))
    at = next((i for i, (a, b) in enumerate(zip(seen, right, strict=False)) if a != b and not same(a, b)), both)
    if at == len(seen) == len(right):
        return ""
    there, wanted = [short(tokens[at], 60) if at < len(tokens) else "the end" for tokens in (seen, right)]
    return f"token {at + 1} is {there}, not {wanted}"


def verdict_of(result: Mapping[str, Any], planned: Mapping[str, Any], cpu_seconds: int) -> Verdict:
    """Convert the result of the tests to a verdict.

    Raises:
        SandboxError: the tests could not be run, for a reason outside the program.
    """
    stage, seen = result["stage"], result.get("seen", "")
    tests, first = planned["tests"], planned["setup"]
    if stage == "passed":
        return correct(detail=f"{len(tests) - first} tests")
    if stage in ("harness", "prefix"):
        raise SandboxError(f"the tests cannot be run: {result.get('error') or seen}")
    if not result.get("gone"):
        how = result["error"]
    elif result["used_up"]:
        how = f"used up its {cpu_seconds} s of CPU time"
    else:
        closed = result["stays"] and result["status"] == KILLED
        how = "closed its pipes" if closed else f"ended with status {result['status']}"
    if stage == "load":
        return incorrect(detail=f"loading the program: {short(how)}")
    number = result["test"]
    lines = tests[number - 1].splitlines()
    line = lines[result["line"] - 1].strip() if 0 < result.get("line", 0) <= len(lines) else ""
    place = "setup" if number <= first else f"test {number - first} of {len(tests) - first}"
    return incorrect(detail="; ".join(part for part in (f"{place}: {short(how)}", short(line), short(seen)) if part))


def short(text: str, most: int = SHOWN) -> str:
    """Shorten a text for a report."""
    return text if len(text) <= most else text[: most - 1] + "…"
