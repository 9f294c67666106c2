r"""Problems of a table with a Python interpreter: tool-integrated reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, model_validator

from outrider.environments.environment import Environment, Reply
from outrider.environments.worlds import Make
from outrider.record import Problem
from outrider.tasks.turn_table import TurnTable
from outrider.tasks.turn_task import TurnLimits
from outrider.verify.judge import Judge
from outrider.verify.program import program_of
from outrider.verify.sandbox import Limits, ProgramFaultError
from outrider.verify.sandbox_choice import Isolation, find_way, run

_CLOSED = "\n```\n"
_REPEATED = """\
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    exec(compile({before!r}, "before", "exec"), globals())
exec(compile({now!r}, "block", "exec"), globals())
"""


class PythonTool(TurnTable):
    """A turn that ends with a fenced block of Python has it executed, and goes on behind a block of its output.

    Names stay from block to block: what ran before without an error is run again, unseen, so a program is a function of
    the blocks. Blocks run in the sandbox of the judges of programs (``docs/sandbox.md``), with the standard library
    alone. A turn without such a block ends the rollout, and the table's judge judges it alone.

    Source: the survey of the STILL report (tool-integrated reasoning); ToRA and Qwen2.5-Math for the two blocks.

    Raises:
        UserError: this machine allows no sandbox, and ``sandbox`` is ``required``.
    """

    calls: int = Field(4, ge=1, description="most blocks of a rollout that are executed")
    longest: int = Field(1000, ge=1, description="most characters of an output; of a longer one the end is left out")
    cpu_seconds: int = Field(5, ge=1, description="CPU time of a block, with those before it")
    sandbox: Isolation = Field("required", description="none: with the rights of this user, where there is no sandbox")
    limits: TurnLimits = Field(TurnLimits(seconds=30.0), description="a block may take half of the seconds of a turn")

    @model_validator(mode="after")
    def _time_to_say_so(self) -> PythonTool:
        # a block that loops uses up its CPU time before its turn is over, also on a machine that is half busy: a policy
        # must not be able to make its rollouts unscorable
        if self.cpu_seconds > self.limits.seconds / 4:
            raise ValueError(f"limits.seconds: at least {4 * self.cpu_seconds}, four times cpu_seconds")
        return self

    @property
    def name(self) -> str:
        return f"python on {self.problems.name}"

    @property
    def fingerprint(self) -> str:
        return f"python/{self.calls}/{self.longest}/{self.cpu_seconds}/{self.problems.fingerprint}"

    @property
    def ends(self) -> Sequence[str]:
        return (_CLOSED,)

    def makes(self) -> Make:
        return MakeInterpreter(self)


class MakeInterpreter:
    """Makes interpreters. That there is no sandbox is said where this is made, and not by every world."""

    def __init__(self, task: PythonTool) -> None:
        self._task = task
        find_way(task.sandbox)

    def __getstate__(self) -> dict[str, Any]:
        return self._task.model_dump(mode="json")

    def __setstate__(self, options: dict[str, Any]) -> None:
        self.__init__(PythonTool.model_validate(options))  # type: ignore[misc]
        self._task.problems.judge.prepare()

    def __call__(self) -> Environment:
        return Interpreter(self._task, self._task.problems.judge)


class Interpreter(Environment):
    """Executes blocks, and has the last turn judged."""

    def __init__(self, task: PythonTool, judge: Judge) -> None:
        self._task, self._judge = task, judge

    def begin(self, problem: Problem, seed: int) -> str:
        self._problem, self._left, self._before = problem, self._task.calls, ""
        return ""

    def step(self, text: str) -> Reply:
        block = program_of(text, False, "block") if text.endswith(_CLOSED) else None
        if block is None:
            return Reply(done=True, verdict=self._judge.judge(self._problem, text, True))
        if not self._left:
            return self._shown("No call is left.", error=True)
        self._left -= 1
        return self._executed(block)

    def _executed(self, block: str) -> Reply:
        source = _REPEATED.format(before=self._before, now=block)
        # half of what the turn may take: a block that sleeps has to be told so before the world itself is late
        limits = Limits(seconds=self._task.limits.seconds / 2, cpu_seconds=self._task.cpu_seconds)
        try:
            ended = run(source, b"", limits, self._task.sandbox)
        except ProgramFaultError as error:
            return self._shown(f"The program was ended: {error}.", error=True)
        output = ended.stdout.decode("utf-8", "replace")
        if ended.status == 0 and not ended.full:
            self._before += f"{block}\n"
            return self._shown(output)
        last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = "it used up its time" if ended.used_up else "its output is too long" if ended.full else last
        return self._shown(f"{output}{why or f'status {ended.status}'}", error=True)

    def _shown(self, output: str, error: bool = False) -> Reply:
        more = len(output) - self._task.longest
        if more > 0:
            output = f"{output[: self._task.longest]}… ({more:,} more)"
        return Reply(f"```output\n{output.rstrip()}\n```\n", error=error, cut=more > 0)
