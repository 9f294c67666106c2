"""Why a sandbox is not done in time, seen from outside: because of its programs, or of a busy machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
WANTS_TO_RUN = ("R", "D")  # runs or waits for a core; waits for memory or disk
OWN_SHARE = 0.8  # of the time: from here on lateness is the program's own


class Watch:
    """Looks at a sandbox's processes now and then.

    A late program either had to wait for a core, for memory or a disk, which is not its fault; or it was slow, slept,
    or waited for something else, which is. Its CPU time, and the time in which none of its processes wanted to run,
    are its own; the rest is waiting for the machine.

    Without ``/proc`` (other systems than Linux, or hidden) lateness is never the program's fault.

    Args:
        pid: of the sandbox's outermost process; those that it has started belong to it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._idle = 0.0
        self._begun = self._looked = time.monotonic()

    def look(self, most: float) -> None:
        """Record whether anything in the sandbox wants to run. A look counts for the time since the last one, for at
        most ``most`` seconds: this process may have had to wait too."""
        now = time.monotonic()
        states = [state for pid in _family(self._pid) for state in _states(pid)]
        if states and not any(state in WANTS_TO_RUN for state in states):
            self._idle += min(now - self._looked, most)
        self._looked = now

    @property
    def own(self) -> str:
        """How it used its time, where lateness is its own fault; else empty."""
        cpu = sum(map(_cpu_seconds, _family(self._pid)))
        passed = time.monotonic() - self._begun
        if cpu + self._idle < OWN_SHARE * passed:
            return ""
        return f"{cpu:.1f} s of CPU time used, and {self._idle:.1f} s waited"


def _family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _states(pid: int) -> Iterator[str]:
    """Of each thread of a process."""
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError, IndexError):
                yield _fields(task)[0]


def _cpu_seconds(pid: int) -> float:
    """Of a process and of those children of it that it has waited for."""
    with contextlib.suppress(OSError, IndexError):
        return sum(map(int, _fields(PROC / str(pid))[11:15])) / TICK
    return 0.0


def _fields(folder: Path) -> list[str]:
    """The fields of ``stat`` from the state on; the command's name before it may hold spaces and brackets."""
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
