"""The untrusted child: how it is started, limited, and ended with all its descendants."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import resource

from outrider.verify.inside.namespaces import DIE_WITH_PARENT, control
from outrider.verify.inside.plain import Ignoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def fork(limits: Mapping[str, int], keep: Sequence[int]) -> int:
    """Fork; the child keeps the descriptors of ``keep`` alone, as 0, 1, 2, …, and is limited. Returns the pid or 0."""
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        control(DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it had ended before
        safe = [os.dup2(fd, 100 + i) for i, fd in enumerate(keep)]  # out of the way, so that none is overwritten below
        for i, fd in enumerate(safe):
            os.dup2(fd, i)
        os.closerange(len(keep), 1024)
        confine(limits)
    return pid


def end_of(pid: int) -> tuple[int, Any]:
    """Wait for the end of a child: its raw status, and the resources that it used."""
    # a child that asks to be traced stops where others end, so a stop is not taken for the end
    while True:
        _, status, usage = os.wait4(pid, 0)
        if not os.WIFSTOPPED(status):
            return status, usage


def confine(limits: Mapping[str, int]) -> None:
    """Limit this process; it cannot raise the limits again."""
    limit(resource.RLIMIT_CPU, limits["cpu"], limits["cpu"] + 1)  # SIGXCPU, then SIGKILL for programs that ignore it
    limit(resource.RLIMIT_AS, limits["memory"])
    limit(resource.RLIMIT_FSIZE, limits["file"])
    limit(resource.RLIMIT_NOFILE, limits["files"])
    limit(resource.RLIMIT_CORE, 0)
    if limits["processes"]:
        limit(resource.RLIMIT_NPROC, limits["processes"])


def limit(which: int, soft: int, hard: int | None = None) -> None:
    """Set one limit, not above the present hard limit."""
    _, highest = resource.getrlimit(which)
    wanted = [soft, soft if hard is None else hard]
    if highest != resource.RLIM_INFINITY:
        wanted = [min(value, highest) for value in wanted]
    resource.setrlimit(which, (wanted[0], wanted[1]))


def used_up(status: int, cpu: float, limits: Mapping[str, int]) -> bool:
    """Whether a process ended because it had used its CPU time."""
    by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return by == signal.SIGXCPU or (
        by == signal.SIGKILL and cpu > limits["cpu"] / 2
    )  # half, since the limit and the usage come from two clocks


def kill_the_rest() -> None:
    """End everything else in this process namespace and take it off the table."""
    if os.getpid() != 1:  # no namespace of its own: these would be the user's processes
        return
    with Ignoring(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with Ignoring(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
