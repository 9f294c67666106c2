"""Starts, limits and ends the untrusted child process and its descendants."""

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
    """Fork a child with resource limits. In the child, only the descriptors ``keep`` are open, and they are renumbered
    0, 1, …. Return the child's pid, or 0 in the child."""
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        control(DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # the parent has already ended
        safe = [os.dup2(fd, 100 + i) for i, fd in enumerate(keep)]  # so that the next loop overwrites none
        for i, fd in enumerate(safe):
            os.dup2(fd, i)
        os.closerange(len(keep), 1024)
        confine(limits)
    return pid


def end_of(pid: int) -> tuple[int, Any]:
    """Wait until a child process ends, and return its raw status and its resource usage."""
    # a traced child stops at a signal that would end an untraced one, so a stop does not count as the end
    while True:
        _, status, usage = os.wait4(pid, 0)
        if not os.WIFSTOPPED(status):
            return status, usage


def confine(limits: Mapping[str, int]) -> None:
    """Limit the resources of this process, which cannot raise the limits again."""
    limit(resource.RLIMIT_CPU, limits["cpu"], limits["cpu"] + 1)  # SIGXCPU, then SIGKILL for programs that ignore it
    limit(resource.RLIMIT_AS, limits["memory"])
    limit(resource.RLIMIT_FSIZE, limits["file"])
    limit(resource.RLIMIT_NOFILE, limits["files"])
    limit(resource.RLIMIT_CORE, 0)
    if limits["processes"]:
        limit(resource.RLIMIT_NPROC, limits["processes"])


def limit(which: int, soft: int, hard: int | None = None) -> None:
    """Set a resource limit, but not above the current hard limit."""
    _, highest = resource.getrlimit(which)
    wanted = [soft, soft if hard is None else hard]
    if highest != resource.RLIM_INFINITY:
        wanted = [min(value, highest) for value in wanted]
    resource.setrlimit(which, (wanted[0], wanted[1]))


def used_up(status: int, cpu: float, limits: Mapping[str, int]) -> bool:
    """Return whether a process ended because it reached its CPU time limit."""
    by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return by == signal.SIGXCPU or (
        by == signal.SIGKILL and cpu > limits["cpu"] / 2
    )  # half of the limit, since the limit and the usage are measured by different clocks


def kill_the_rest() -> None:
    """Kill all other processes in this process namespace, and reap them."""
    if os.getpid() != 1:  # not in a separate namespace, so the other processes would be the user's
        return
    with Ignoring(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with Ignoring(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
