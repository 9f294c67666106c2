"""Two verifiers for programs: one runs unit tests, the other compares the program's output with the expected output.
Both verifiers run programs in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from outrider.options import Options
from outrider.record import Problem, Verdict, unparseable
from outrider.verify.isolation import Isolation
from outrider.verify.program import Code, program_of
from outrider.verify.program_tests import read_tests
from outrider.verify.unit_names import plan, whole_program
from outrider.verify.verifier import PooledVerifier, text_of

if TYPE_CHECKING:  # a recipe needs a verifier's options, but no sandbox
    from outrider.verify.program_check import ProgramCheck

SHARE = 0.9  # share of the verdict's time limit that the sandbox may use; the rest is for sending the result
SHOWN = 300  # maximum characters of an answer that are kept in the verdict
LONGEST_CODE = 1 << 20  # maximum characters of a program; a longer program is unparseable


class CodeVerifier(PooledVerifier):
    """Base class of the code verifiers, which finds the program in a response and limits the program's resources."""

    seconds: float = Field(
        60.0,
        gt=0,
        description=(
            "wall-clock limit in seconds for verifying one response; the default is generous, because the machine may "
            "be busy"
        ),
    )
    memory_gb: float = Field(
        1.0,
        gt=0,
        description=(
            "memory limit in GiB for the tested program; the same limit applies to the process of the verifier, for "
            "memory allocated after its start"
        ),
    )
    cpu_seconds: int = Field(10, ge=1, description="limit on the program's CPU time in seconds for one test input")
    sandbox: Isolation = Field(
        "required",
        description=(
            "isolation of the tested program: in a sandbox (required), or no isolation, with all permissions of the "
            "user who runs Outrider (none)"
        ),
    )

    def prepare(self) -> None:
        self._check().prepare()

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        source = program_of(text, finished, self._code)
        if source is None:
            return unparseable("no program" if finished else "truncated before the end of a program")
        if len(source) > LONGEST_CODE:
            return unparseable(f"a program of {len(source)} characters")
        verdict = self._verdict(problem.answer, source.encode("utf-8", "replace").decode(), self._check())
        return Verdict(verdict.outcome, verdict.score, answer=source.strip()[:SHOWN], detail=verdict.detail)

    def _verdict(self, reference: Mapping[str, Any], source: str, check: ProgramCheck) -> Verdict:
        raise NotImplementedError

    @property
    def _code(self) -> Code:
        raise NotImplementedError

    def _check(self) -> ProgramCheck:
        from outrider.verify.program_check import ProgramCheck
        from outrider.verify.sandbox import Limits

        return ProgramCheck(Limits(SHARE * self.seconds, self.cpu_seconds, self.memory_gb), self.sandbox)


class Compare(Options):
    """Options for comparing a program's output with the expected output."""

    tolerance: float | None = Field(
        1e-6,
        ge=0,
        description=(
            "maximum absolute or relative difference at which two decimal numbers count as equal; null: numbers must "
            "be equal as text"
        ),
    )
    case: bool = Field(True, description="whether upper-case and lower-case letters count as different")


class Stdio(CodeVerifier):
    """Accepts a program if it prints the expected tokens for every input and exits with status 0.

    Tokens are separated by white space, and numbers are compared by value (:func:`same_token`). The field named by
    ``tests`` contains ``[{"input": …, "output": …}, …]`` or tests in another form that
    :mod:`outrider.verify.program_tests` can read. If the tests are function calls, the function must return the
    expected values. Expected values never enter the program's process.
    """

    tests: str = Field(
        "tests",
        min_length=1,
        description="table field that contains the test inputs and the expected output for each input",
    )
    compare: Compare = Field(
        default_factory=Compare, description="settings for comparing the program's output with the expected output"
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> dict[str, Any]:
        tests = read_tests(fields, self.tests)
        solution = {"solution": solution_of(fields, answer)}
        if tests.calls:
            return {"calls": tests.calls, "function": tests.function, **solution}
        return {"tests": tests.pairs, **solution}

    def right(self, problem: Problem) -> str | None:
        solution = problem.answer["solution"]
        return None if solution is None else f"```python\n{solution}\n```"

    def _verdict(self, reference: Mapping[str, Any], source: str, check: ProgramCheck) -> Verdict:
        tolerance, case = self.compare.tolerance, self.compare.case
        if "tests" in reference:
            return check.by_output(source, reference["tests"], tolerance, case)
        calls = {"function": reference["function"], "cases": reference["calls"]}
        return check.by_calls(source, {**calls, "tolerance": tolerance, "case": case})

    @property
    def _code(self) -> Code:
        return "block"


class UnitTests(CodeVerifier):
    """Accepts a program if its functions pass the tests, which are Python statements.

    The tests run in a separate process and receive only plain data from the program; see ``docs/sandbox.md``. The
    program's functions receive copies of their arguments, so tests cannot observe in-place changes.
    """

    tests: str = Field(
        "test",
        min_length=1,
        description="table field that contains the tests, as a Python program or as a list of statements",
    )
    entry_point: str | None = Field(
        None,
        description=(
            "field of the data table that contains the name of the tested function; this function is passed to "
            "check() in the tests; null: the tests call functions by name"
        ),
    )
    setup: str | None = Field(
        None, description="table field with Python statements to run before the tests; null: no such statements"
    )
    prefix: str | None = Field(
        None,
        description=(
            "table field with code to put before the response, such as the function header that the response "
            "continues; null: no such code"
        ),
    )
    code: Code = Field(
        "block",
        description=(
            "part of the response that is tested: the last fenced code block (block), or the response up to the end of "
            "the function that starts in the prompt (completion)"
        ),
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> dict[str, Any]:
        prefix, setup, entry = [
            "" if name is None else text_of(fields, name) for name in (self.prefix, self.setup, self.entry_point)
        ]
        tests = fields.get(self.tests)
        listed = tests if isinstance(tests, list) else [text_of(fields, self.tests)]
        if not listed or not all(isinstance(test, str) for test in listed):
            raise ValueError(f"the field {self.tests!r} holds no tests")
        if not any("assert" in test for test in listed):
            raise ValueError(f"the tests in {self.tests!r} assert nothing, so that every program would pass")
        solution = solution_of(fields, answer)
        whole = None if solution is None else whole_program(prefix, solution)
        planned = plan(prefix, [setup] if setup.strip() else [], listed, entry.strip(), whole or "")
        return {"prefix": prefix, "solution": whole, "plan": planned}

    def right(self, problem: Problem) -> str | None:
        prefix, solution = problem.answer["prefix"], problem.answer["solution"]
        if solution is None:
            return None
        if self.code == "completion":
            return str(solution).removeprefix(prefix) if solution.startswith(prefix) else None
        return f"```python\n{solution}\n```"

    def _verdict(self, reference: Mapping[str, Any], source: str, check: ProgramCheck) -> Verdict:
        prefix = reference["prefix"]
        if self.code == "completion":
            prefix, source = "", prefix + source
        elif prefix and not prefix.endswith("\n"):
            prefix += "\n"
        return check.by_tests(source, prefix, reference["plan"])

    @property
    def _code(self) -> Code:
        return self.code


def solution_of(fields: Mapping[str, Any], answer: str) -> str | None:
    """Return the reference solution of the row; None if the row has none."""
    return text_of(fields, answer) if fields.get(answer) is not None else None
