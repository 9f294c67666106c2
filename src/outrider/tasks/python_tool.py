r"""Problems of a table with a Python interpreter: tool-integrated reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from outrider.environments.environment import Environment, Reply
from outrider.environments.worlds import Make
from outrider.record import Problem
from outrider.tasks.table import Table
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask
from outrider.verify.judge import Judge
from outrider.verify.program import program_of
from outrider.verify.sandbox import Limits, ProgramFaultError, Way
from outrider.verify.sandbox_choice import Isolation, find_way, run

_CLOSED = "\n```\n"
_REPEATED = """\
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    exec(compile({before!r}, "before", "exec"), globals())
exec(compile({now!r}, "block", "exec"), globals())
"""


class PythonTool(TurnTask):
    """A turn that ends with a fenced block of Python has it executed, and goes on behind a block of its output.

    Names stay from block to block: what ran before without an error is run again, unseen, so a program is a function of
    the blocks. Blocks run in the sandbox of the judges of programs (``docs/sandbox.md``), with the standard library
    alone. A turn without such a block ends the rollout, and the table's judge judges it alone.

    Source: the survey of the STILL report (tool-integrated reasoning); ToRA and Qwen2.5-Math for the two blocks.

    Raises:
        UserError: this machine allows no sandbox, and ``sandbox`` is ``required``.
    """

    problems: Table = Field(description="the table with its options")
    calls: int = Field(4, ge=1, description="most blocks of a rollout that are executed")
    longest: int = Field(1000, ge=1, description="most characters of an output; of a longer one the end is left out")
    cpu_seconds: int = Field(5, ge=1, description="CPU time of a block, with those before it")
    sandbox: Isolation = Field("required", description="none: with the rights of this user, where there is no sandbox")

    @property
    def name(self) -> str:
        return f"python on {self.problems.name}"

    @property
    def fingerprint(self) -> str:
        return f"python/{self.calls}/{self.longest}/{self.cpu_seconds}/{self.problems.fingerprint}"

    @property
    def counts(self) -> Mapping[str, int]:
        return self.problems.counts

    @property
    def conversational(self) -> bool:
        return self.problems.conversational

    @property
    def ends(self) -> Sequence[str]:
        return (_CLOSED,)

    @property
    def table(self) -> Task:
        return self.problems

    def train(self, index: int) -> Problem:
        return self.problems.train(index)

    def heldout(self, n: int) -> list[Problem]:
        return self.problems.heldout(n)

    def environment(self) -> Environment:
        return self.makes()()

    def makes(self) -> Make:
        return MakeInterpreter(self)

    def close(self) -> None:
        self.problems.close()


class MakeInterpreter:
    """Makes interpreters; how a sandbox is made is found where this is made and where it is unpickled."""

    def __init__(self, task: PythonTool) -> None:
        self._task, self._way = task, find_way(task.sandbox)

    def __getstate__(self) -> dict[str, Any]:
        return self._task.model_dump(mode="json")

    def __setstate__(self, options: dict[str, Any]) -> None:
        self.__init__(PythonTool.model_validate(options))  # type: ignore[misc]
        self._task.problems.judge.prepare()

    def __call__(self) -> Environment:
        return Interpreter(self._task, self._task.problems.judge, self._way)


class Interpreter(Environment):
    """Executes blocks, and has the last turn judged."""

    def __init__(self, task: PythonTool, judge: Judge, way: Way) -> None:
        self._task, self._judge, self._way = task, judge, way

    def begin(self, problem: Problem, seed: int) -> str:
        self._problem, self._left, self._before = problem, self._task.calls, ""
        return ""

    def step(self, text: str) -> Reply:
        block = program_of(text, False, "block") if text.endswith(_CLOSED) else None
        if block is None:
            return Reply(done=True, verdict=self._judge.judge(self._problem, text, True))
        if not self._left:
            return _shown("No call is left.", error=True)
        self._left -= 1
        return self._executed(block)

    def _executed(self, block: str) -> Reply:
        source = _REPEATED.format(before=self._before, now=block)
        limits = Limits(seconds=self._task.limits.seconds, cpu_seconds=self._task.cpu_seconds)
        try:
            ended = run(source, b"", limits, self._task.sandbox)
        except ProgramFaultError as error:
            return _shown(f"The program was ended: {error}.", error=True)
        output = ended.stdout.decode("utf-8", "replace")
        if ended.status == 0 and not ended.full:
            self._before += f"{block}\n"
            return _shown(self._cut(output))
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = "it used up its time" if ended.used_up else "its output is too long" if ended.full else last
        return _shown(self._cut(f"{output}{why or f'status {ended.status}'}"), error=True)

    def _cut(self, output: str) -> str:
        longest = self._task.longest
        return output if len(output) <= longest else f"{output[:longest]}… ({len(output) - longest:,} more)"


def _shown(output: str, error: bool = False) -> Reply:
    return Reply(f"```output\n{output.rstrip()}\n```\n", error=error)
