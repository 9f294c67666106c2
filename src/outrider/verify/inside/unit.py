"""Runs tests that call a program's functions. The tests run in this process, and call the program in a child process
over a pipe.

The child is forked before the tests arrive, and it receives one call at a time. Therefore, the child never sees the
tests or their expected values. This process decides whether a test has passed.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import resource
import sys
import time

from outrider.verify.inside.calls import (
    Handle,
    MissingError,
    ProgramEnded,
    TestedProgram,
    Unsendable,
    answer_calls,
    leave,
    shown,
)
from outrider.verify.inside.child import end_of, fork, limit, used_up
from outrider.verify.inside.functional import verify_calls
from outrider.verify.inside.namespaces import exit_at
from outrider.verify.inside.plain import Frames, Ignoring, dumps, loads
from outrider.verify.inside.programs import compiled, prepare_interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GRACE = 0.05  # seconds that a program's process may take to end after its pipes have closed


def serve(channel: Frames, job: dict[str, Any]) -> None:
    """Verify ``job["source"]`` with the tests that arrive over the channel, and send the result."""
    limits = job["limits"]
    nothing = os.open(os.devnull, os.O_RDWR)
    (their_read, write), (read, their_write) = os.pipe(), os.pipe()
    pid = fork(limits, [nothing, nothing, nothing, their_read, their_write])
    if pid == 0:
        with Ignoring(EOFError):
            prepare_interpreter()
            answer_calls(job["prefix"], job["source"], Frames(3, 4))
        leave()
    os.close(their_read)
    os.close(their_write)
    limit(resource.RLIMIT_CPU, limits["cpu"] + 1, limits["cpu"] + 2)
    limit(resource.RLIMIT_AS, limits["memory"])
    tested = TestedProgram(Frames(read, write))
    planned = loads(channel.receive(1 << 62))
    result = verify_calls(tested, planned["calls"]) if "calls" in planned else verify_tests(tested, planned)
    if result.get("gone"):
        time.sleep(GRACE)
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        result["stays"] = not ended or os.WIFSTOPPED(status)
        if result["stays"]:
            os.kill(pid, signal.SIGKILL)  # the program closed its pipes, or is ending
            status, usage = end_of(pid)
        result["status"] = os.waitstatus_to_exitcode(status)
        result["used_up"] = used_up(status, usage.ru_utime + usage.ru_stime, limits)
    channel.send(dumps(result))


def verify_tests(tested: TestedProgram, job: dict[str, Any]) -> dict[str, Any]:
    """Run the tests and return the result.

    Args:
        tested: the program.
        job: a mapping with ``prefix`` (trusted code that runs here and defines helpers), ``modules`` (modules to
            import), ``names`` (names to get from the program), and ``tests`` (statements that run in order).
    """
    import random

    random.seed(0)  # so that tests with random numbers are reproducible
    space: dict[str, Any] = {"__name__": "tests"}
    stage, at = "prefix", 0
    try:
        exec(compiled(job["prefix"], "prefix"), space)  # trusted code of the data set
        for module in job["modules"]:
            space[module] = __import__(module)
        stage = "load"
        tested.request("load")
        # a program may return values that are expensive to read or compare, for example with colliding hashes. From
        # here on, the CPU time limit ends this process with the signal's number
        exit_at(signal.SIGXCPU)
        for name in job["names"]:
            with Ignoring(MissingError):
                value = tested.request("name", name)
                space[name] = Handle(tested, value._number, name) if isinstance(value, Handle) else value
        stage = "test"
        for at, test in enumerate(job["tests"], 1):
            tested.last = ""
            exec(compiled(test, f"test {at}"), space)
    except Unsendable as problem:
        return {"stage": "harness", "test": at, "seen": str(problem)}
    except ProgramEnded:
        return {"stage": stage, "test": at, "gone": True, "seen": tested.last}
    except BaseException as error:  # noqa: BLE001 - every exception in a test means that the test failed
        return {"stage": stage, "test": at, "line": _line(at), "error": _error_text(error), "seen": tested.last}
    return {"stage": "passed"}


def _error_text(error: BaseException) -> str:
    """Return the error as text. For an ``assert`` without a message, the text is only the exception's type."""
    text = shown(str(error))[1:-1]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _line(test: int) -> int:
    """Return the line of the test at which the current exception occurred, directly or in a called function. If the
    traceback contains no line of the test, return 0."""
    trace, line = sys.exc_info()[2], 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == f"test {test}":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
