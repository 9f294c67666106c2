r"""Tool-integrated reasoning on the problems of a data file, with a Python interpreter as the tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, model_validator

from outrider.environments.environment import Environment, Reply, beginning
from outrider.environments.environments import Make
from outrider.record import Problem
from outrider.tasks.turn_table import TurnTable
from outrider.tasks.turn_task import MARKS, TurnLimits
from outrider.verify.isolation import Isolation
from outrider.verify.program import ending_block
from outrider.verify.thinking import TurnThinking
from outrider.verify.verifier import Verifier

_CLOSED = "\n```\n"
_ENDED = "\0ended"  # written when the program ends, since exit status 0 may also come from os._exit
# the program runs blocks in a separate namespace, so that only the blocks define names in __main__
_PROGRAM = """\
import atexit, os, random, sys, threading

def block(source):
    try:
        exec(compile(source, "block", "exec", dont_inherit=True), names)
    except SystemExit as end:
        if end.code:
            raise
    pools = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", ())  # these wait for more work
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon and thread not in pools:
            thread.join()
    flush()

def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream and not getattr(stream, "closed", False):
            stream.flush()

def send_to(*fds):
    flush()
    for i, fd in enumerate(fds, 1):
        os.dup2(fd, i)

random.seed(0)
shown = os.dup(1), os.dup(2)
nowhere = os.open(os.devnull, os.O_WRONLY)
send_to(nowhere, nowhere)
for source in before:
    block(source)
send_to(*shown)
atexit.register(send_to, nowhere, nowhere)  # the last are called first: those of earlier blocks are not heard
block(now)
os.write(shown[1], ended)
"""


class PythonTool(TurnTable):
    """Problems of a data file that the policy solves with a Python interpreter. If a turn ends with a code block, the
    interpreter replies with the block's output.

    The closing fence of a block ends the turn. If the last sampled token also contains text after the fence, the turn
    keeps this text, but it has no effect. If the closing fence belongs to no Python block, the reply is an error. A
    turn that does not end with a code block, such as a turn with text after its block, ends the rollout. The verifier
    verifies only this turn.

    Variables persist between blocks, because the earlier blocks are run again before each block, without showing their
    output. Earlier blocks that failed are not run again. A block that exits with status 0 has not failed. Blocks should
    be deterministic, so that another run of a block gives the same variables. ``random`` and hashes are seeded. The
    clock, ``os.urandom`` (used by ``secrets``, ``uuid4`` and an unseeded ``random.Random()``), object addresses and
    thread races are not deterministic. Blocks run in a sandbox (``docs/sandbox.md``), with only the standard library.

    Sources: the STILL report, which surveys tool-integrated reasoning; ToRA and Qwen2.5-Math, for the format of code
    and output blocks.

    Raises:
        UserError: no sandbox works on this machine, and ``sandbox`` is ``required``.
    """

    calls: int = Field(4, ge=1, description="maximum number of code blocks executed per rollout")
    longest: int = Field(
        1000,
        ge=1,
        description=(
            "maximum length, in characters, of the output returned for a code block; longer output is truncated"
        ),
    )
    cpu_seconds: int = Field(
        5,
        ge=1,
        description=(
            "CPU time limit in seconds for a code block, including the time to run the rollout's earlier blocks again"
        ),
    )
    sandbox: Isolation = Field(
        "required",
        description=(
            "isolation of the policy's code; required: code runs in a sandbox; none: code runs without isolation, with "
            "all permissions of the user who started the run"
        ),
    )
    limits: TurnLimits = Field(
        default_factory=lambda: TurnLimits(seconds=30.0),
        description=(
            "limits on a rollout, such as its number of turns; a code block may run for at most half of the limit "
            "`seconds`"
        ),
    )

    @model_validator(mode="after")
    def _time_to_say_so(self) -> PythonTool:
        # an endless loop must reach its CPU time limit before the time limit of the turn, even on a half-busy
        # machine; otherwise a policy could avoid verdicts on its rollouts
        if self.cpu_seconds > self.limits.seconds / 4:
            raise ValueError(f"limits.seconds: at least {4 * self.cpu_seconds}, four times cpu_seconds")
        if self.limits.bytes < MARKS:
            raise ValueError(f"limits.bytes: at least {MARKS}, for the fences of an output")
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

    def example_turns(self, problem: Problem) -> list[str]:
        """Return three turns: a code block, a second code block that needs the first, and an answer."""
        return [*(f"```python\n{code}{_CLOSED}" for code in ("x = 6 * 7\nprint(x)", "print(x + 1)")), "43"]


class MakeInterpreter:
    """Picklable function that creates interpreters. The constructor raises an error if no sandbox works."""

    def __init__(self, task: PythonTool) -> None:
        from outrider.verify.sandbox_choice import find_way  # imported here, since a recipe does not need it

        self._task = task
        find_way(task.sandbox)

    def __getstate__(self) -> dict[str, Any]:
        return self._task.model_dump(mode="json")

    def __setstate__(self, options: dict[str, Any]) -> None:
        self.__init__(PythonTool.model_validate(options))  # type: ignore[misc]
        self._task.problems.verifier.prepare()

    def __call__(self) -> Environment:
        return Interpreter(self._task, self._task.problems.verifier)


class Interpreter(Environment):
    """An environment that executes code blocks and verifies the last turn."""

    def __init__(self, task: PythonTool, verifier: Verifier) -> None:
        self._task, self._verifier = task, verifier

    def begin(self, problem: Problem, seed: int) -> str:
        self._thinking, self._left, self._before = (
            TurnThinking(problem, self._verifier.thinking),
            self._task.calls,
            list[str](),
        )
        self._break = ""
        return ""

    def step(self, text: str) -> Reply:
        # the fence before the output must start a new line
        self._break = "" if text.endswith("\n") else "\n"
        problem = self._thinking.problem
        split = self._thinking.split(text)
        if split.answer is None and _CLOSED in text:
            return self._shown("Nothing was executed: the reasoning block is not closed.", error=True)
        said, stopped, _ = (split.answer or "").partition(_CLOSED)
        found = ending_block(said + stopped)
        block = None if found is None else found.program
        if block is None and stopped:  # the turn ended at a fence, not because the policy ended it
            return self._shown("Nothing was executed: a block begins with ```python and ends with ```.", error=True)
        if block is None:
            return Reply(done=True, verdict=self._verifier.verify(problem, text, True))
        if not self._left:
            return self._shown("No call is left.", error=True)
        self._left -= 1
        return self._executed(block)

    def _executed(self, block: str) -> Reply:
        from outrider.verify.sandbox import Limits, ProgramFaultError
        from outrider.verify.sandbox_choice import run

        given = f"'before': {self._before!r}, 'now': {block!r}, 'ended': {_ENDED.encode()!r}, 'names': globals()"
        source = f"exec({_PROGRAM!r}, {{{given}}})"
        # half of the turn's time limit, so that a block that sleeps is reported before the environment times out
        limits = Limits(seconds=self._task.limits.seconds / 2, cpu_seconds=self._task.cpu_seconds)
        try:
            ended = run(source, b"", limits, self._task.sandbox)
        except ProgramFaultError as error:
            return self._shown(f"The program was ended: {error}.", error=True)
        output = ended.stdout.decode("utf-8", "replace")
        errors = ended.stderr.decode("utf-8", "replace")
        if ended.status == 0 and _ENDED in errors and not ended.full:
            self._before.append(block)
            return self._shown(output)
        last = errors.replace(_ENDED, "").strip().rpartition("\n")[2]
        why = "it used up its time" if ended.used_up else "its output is too long" if ended.full else last
        return self._shown(f"{output}{why or f'status {ended.status}'}", error=True)

    def _shown(self, output: str, error: bool = False) -> Reply:
        marks = len(self._block(f"… ({len(output):,} more)").encode())
        whole = self._block(output)
        most = self._task.limits.bytes
        if len(output) <= self._task.longest and len(whole.encode("utf-8", "replace")) <= most:
            return Reply(whole, error=error)
        kept = beginning(output[: self._task.longest], most - marks)
        return Reply(self._block(f"{kept}… ({len(output) - len(kept):,} more)"), error=error, cut=True)

    def _block(self, output: str) -> str:
        return f"{self._break}```output\n{output.rstrip()}\n```\n"
