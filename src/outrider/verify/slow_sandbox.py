"""Decides, from outside a sandbox, whether the sandbox is late because of its program or because the machine is
busy."""

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
OWN_SHARE = 0.8  # lateness is the program's fault if its own time is at least this share of the elapsed time
SPARE_THREADS = 1  # allowed runnable threads beyond the number of processors, such as one that is waking another
TESTER_SECONDS = 2  # CPU time that tests may use in addition to the program


class _Thread(NamedTuple):
    """A thread of a sandbox."""

    started: float  # seconds between the machine's start and the thread's start
    state: str
    priority: tuple[str, str]  # niceness and scheduling policy
    vforked: bool  # whether the thread may wait in vfork for a child; if so, the child's state counts instead


class Watch:
    """Watches the processes of a sandbox, at times that the program cannot predict.

    If a program is late because it had to wait for a core, memory or a disk, the delay is not the program's fault. If
    the program was slow or slept, or if its threads waited for each other, the delay is the program's fault. The rules
    that distinguish the two cases use nothing that a program can fake:

    - CPU time of the program's processes counts as the program's own time.
    - Time during which no thread of the program is runnable, and none waits for a disk, also counts as the program's
      own time. Threads that wait in ``vfork`` look like threads that wait for a disk. They are therefore ignored, and
      the state of their children is used instead. Threads with lowered priority, and threads created since the last
      call of :meth:`look`, are also ignored.
    - Time during which the program has more runnable threads than there are processors is also its own time, since
      these threads wait for each other.
    - Lateness is the program's fault if its own time is at least four fifths of the elapsed time. Lateness is also the
      program's fault if its processes together have used more than ``2 * cpu_seconds + 2`` seconds of CPU time since
      the last call of :meth:`asked`.

    If ``/proc`` is not available (it is hidden, or the system is not Linux), lateness is never the program's fault.

    Args:
        pid: id of the sandbox's outermost process, whose descendants belong to the sandbox.
        cpu_seconds: CPU time limit per process of the program.
    """

    def __init__(self, pid: int, cpu_seconds: float) -> None:
        self._pid = pid
        self._most = 2 * cpu_seconds + TESTER_SECONDS
        self._own = 0.0
        self._begun = self._looked = time.monotonic()
        self._used: dict[tuple[int, str], float] = {}  # CPU time of each observed process, by pid and start time
        self._cpu_before, self._new = 0.0, True

    def asked(self) -> None:
        """Note a new request to the program. CPU time used before the request no longer counts. The next call of
        :meth:`look` does not ignore new threads."""
        self._cpu_before, self._new = self._cpu(), True

    def next_look(self, about: float) -> float:
        """Return a random number of seconds until the next look, so that a program cannot prepare for the look."""
        return about * random.uniform(0.5, 1.5)

    def look(self, most: float) -> None:
        """Count the time since the last call as the program's own time, unless the program is now waiting for a core,
        memory or a disk.

        At most ``most`` seconds are counted. If more time has passed since the last call, the process that calls this
        method was probably delayed because the machine is busy.
        """
        now = time.monotonic()
        threads = list(_threads(self._pid))
        if threads and not self._waits(threads):
            self._own += min(now - self._looked, most)
        self._cpu()  # record the CPU time of processes that may end before their parents wait for them
        self._looked, self._new = now, False

    @property
    def own(self) -> str:
        """Return a text that says how the program used its time, if its lateness is its own fault; otherwise an empty
        text."""
        cpu = self._cpu()
        passed = time.monotonic() - self._begun
        if cpu + self._own < OWN_SHARE * passed and cpu - self._cpu_before <= self._most:
            return ""
        return f"{cpu:.1f} s of CPU time used, and {self._own:.1f} s waited"

    def _waits(self, threads: list[_Thread]) -> bool:
        """Return whether one of the threads has to wait because of the machine."""
        wanting = [one for one in threads if one.state == "R" or (one.state == "D" and not one.vforked)]
        if len(wanting) > len(os.sched_getaffinity(0)) + SPARE_THREADS:
            return False
        usual = threads[0].priority
        then = _uptime() - (time.monotonic() - self._looked)
        return any(one.priority == usual and (self._new or one.started <= then) for one in wanting)

    def _cpu(self) -> float:
        """Return the CPU seconds of all processes of the sandbox, including those that have ended."""
        waited_for = 0.0
        for pid in _family(self._pid):
            with contextlib.suppress(OSError, IndexError):
                fields = _fields(PROC / str(pid))
                times = [int(ticks) / TICK for ticks in fields[11:15]]
                waited_for += sum(times)
                self._used[pid, fields[19]] = sum(times[:2])
        # the first sum lacks processes that no parent waited for; the second lacks CPU time since the last look
        return max(waited_for, sum(self._used.values()))


def _family(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield pid
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            for child in _children(task):
                yield from _family(child)


def _children(task: Path) -> list[int]:
    """Return the children of one thread."""
    with contextlib.suppress(OSError):
        return [int(child) for child in (task / "children").read_text().split()]
    return []


def _threads(pid: int) -> Iterator[_Thread]:
    """Yield the threads of a process and of its descendants, beginning with the outermost process."""
    for member in _family(pid):
        with contextlib.suppress(OSError):
            for task in (PROC / str(member) / "task").iterdir():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    fields = _fields(task)
                    vforked = fields[0] == "D" and bool(_children(task))
                    started = int(fields[19]) / TICK
                    yield _Thread(started, fields[0], (fields[16], fields[38]), vforked)


def _uptime() -> float:
    """Return the seconds since the machine started, measured by the clock that also gives the start times of
    processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _fields(folder: Path) -> list[str]:
    """Return the fields of ``stat`` after the command name, which may contain spaces and brackets."""
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
