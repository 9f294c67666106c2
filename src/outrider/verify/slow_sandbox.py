"""Why a sandbox is not done in time, seen from outside: because of its programs, or of a busy machine."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
OWN_SHARE = 0.8  # of the time: from here on lateness is the program's own
SPARE_THREADS = 1  # that may want to run beyond the processors, such as one that is just waking another
TESTER_SECONDS = 2  # of CPU time that tests may use more than the program


class _Thread(NamedTuple):
    """One thread of a sandbox."""

    started: float  # seconds since the machine's start
    state: str
    priority: tuple[str, str]  # its niceness and policy
    vforked: bool  # it may wait in vfork for a child of its own, which then tells whether anything wants to run


class Watch:
    """Looks at a sandbox's processes now and then, at times that a program cannot know.

    A late program either had to wait for a core, for memory or a disk, which is not its fault; or it was slow, slept,
    or waited for itself, which is. The rule, in which nothing is decided by what a program only looks like:

    - CPU time of its processes is its own.
    - So is the time in which no thread of it wants to run that was there before. A thread that waits in ``vfork`` for
      its child looks as if it waited for a disk; so of a thread and its children only those that do not wait for
      others count. A thread that has lowered its own priority
      waits by its own doing. One that is younger than the last look was not kept waiting.
    - So is the time in which more of its threads want to run than there are processors: they wait for each other.
    - Lateness is its own where these make up four fifths of the time, or where all its processes together have used
      more CPU time for this input than one program and its tests may.

    Without ``/proc`` (other systems than Linux, or hidden) lateness is never the program's fault.

    Args:
        pid: of the sandbox's outermost process; those that it has started belong to it.
        cpu_seconds: that each process of the program may use.
    """

    def __init__(self, pid: int, cpu_seconds: float) -> None:
        self._pid = pid
        self._most = 2 * cpu_seconds + TESTER_SECONDS
        self._own = 0.0
        self._begun = self._looked = time.monotonic()
        self._used: dict[tuple[int, str], float] = {}  # CPU time of each process that was seen, by its start
        self._cpu_before, self._new = 0.0, True

    def asked(self) -> None:
        """Something new is asked of it: what it starts for that is young, and the CPU time before was for another."""
        self._cpu_before, self._new = self._cpu(), True

    def next_look(self, about: float) -> float:
        """Seconds until the next look: at random, so that a program cannot be awake just then."""
        return about * random.uniform(0.5, 1.5)

    def look(self, most: float) -> None:
        """Record whether anything in the sandbox waits for the machine. A look counts for the time since the last one,
        for at most ``most`` seconds: this process may have had to wait too."""
        now = time.monotonic()
        threads = list(_threads(self._pid))
        if threads and not self._waits(threads):
            self._own += min(now - self._looked, most)
        self._cpu()  # a process that has ended before it is waited for is counted as it was seen last
        self._looked, self._new = now, False

    @property
    def own(self) -> str:
        """How it used its time, where lateness is its own fault; else empty."""
        cpu = self._cpu()
        passed = time.monotonic() - self._begun
        if cpu + self._own < OWN_SHARE * passed and cpu - self._cpu_before <= self._most:
            return ""
        return f"{cpu:.1f} s of CPU time used, and {self._own:.1f} s waited"

    def _waits(self, threads: list[_Thread]) -> bool:
        """Whether a thread is kept waiting by the machine."""
        wanting = [one for one in threads if one.state == "R" or (one.state == "D" and not one.vforked)]
        if len(wanting) > len(os.sched_getaffinity(0)) + SPARE_THREADS:
            return False
        usual = threads[0].priority
        then = _uptime() - (time.monotonic() - self._looked)
        return any(one.priority == usual and (self._new or one.started <= then) for one in wanting)

    def _cpu(self) -> float:
        """Seconds of CPU time of all its processes, those that have ended included."""
        waited_for = 0.0
        for pid in _family(self._pid):
            with contextlib.suppress(OSError, IndexError):
                fields = _fields(PROC / str(pid))
                times = [int(ticks) / TICK for ticks in fields[11:15]]
                waited_for += sum(times)
                self._used[pid, fields[19]] = sum(times[:2])
        # the first misses those without a waiting parent; the second what happened since the last look before an end
        return max(waited_for, sum(self._used.values()))


def _family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            for child in _children(task):
                yield from _family(child)


def _children(task: Path) -> list[int]:
    """Of one thread."""
    with contextlib.suppress(OSError):
        return [int(child) for child in (task / "children").read_text().split()]
    return []


def _threads(pid: int) -> Iterator[_Thread]:
    """Of a process and all below it, the outermost first."""
    for member in _family(pid):
        with contextlib.suppress(OSError):
            for task in (PROC / str(member) / "task").iterdir():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    fields = _fields(task)
                    vforked = fields[0] == "D" and bool(_children(task))
                    started = int(fields[19]) / TICK
                    yield _Thread(started, fields[0], (fields[16], fields[38]), vforked)


def _uptime() -> float:
    """Seconds since the machine's start, on the clock of processes' starts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _fields(folder: Path) -> list[str]:
    """The fields of ``stat`` from the state on; the command's name before it may hold spaces and brackets."""
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
