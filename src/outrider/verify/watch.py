"""Whose fault it is that a sandbox is not done in time, seen from outside: its programs', or a busy machine's."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
WANTS_TO_RUN = ("R", "D")  # runs or waits for a core; waits for memory or disk
OWN_SHARE = 0.8  # of the time: from here on it had what it wanted


class Watch:
    """Looks at a sandbox's processes now and then.

    A program that is done late was kept waiting for a core, for memory or a disk, which says nothing of it; or it had
    them and was slow, or slept, or waited for what does not come, which is its own doing. The first can be told from
    the others: what it had is its CPU time and the time in which none of its processes wanted to run.

    Where ``/proc`` tells nothing (other systems than Linux, or hidden), it is never the program's own doing.

    Args:
        pid: of the sandbox's outermost process; those that it has started belong to it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._idle = 0.0
        self._begun = self._looked = time.monotonic()

    def look(self, most: float) -> None:
        """Note whether anything in the sandbox wants to run. One look stands for the time since the one before, but
        for no more than ``most`` seconds: where this process too was kept waiting, nothing is known."""
        now = time.monotonic()
        states = [state for pid in _family(self._pid) for state in _states(pid)]
        if states and not any(state in WANTS_TO_RUN for state in states):
            self._idle += min(now - self._looked, most)
        self._looked = now

    @property
    def own(self) -> str:
        """What it did with its time, where that was its own doing; else empty."""
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
    """Of ``stat``, from the state on: what is before it may hold anything."""
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
