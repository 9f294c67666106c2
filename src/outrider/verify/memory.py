"""How often the kernel ended a process because memory ran out: what a program cannot do to itself by a signal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def memory_failures() -> int | None:
    """How many processes were ended so since the machine or the control group began; None where the kernel is silent.

    Of our own control group, in which sandboxed programs run too, where it counts them: what runs out of memory
    elsewhere on the machine has nothing to do with a verdict here. A kill for the whole machine's memory counts in the
    group of the process that was killed. Without such a count, that of the machine (``/proc/vmstat``).
    """
    for file in (*_own_counts(), Path("/proc/vmstat")):
        with contextlib.suppress(OSError):
            counts = dict(line.split()[:2] for line in file.read_text().splitlines())
            if "oom_kill" in counts:
                return int(counts["oom_kill"])
    return None


def _own_counts() -> Iterator[Path]:
    """The counts of our control group, of version 2 or 1. A container may be told a path that means another group
    there, so only a group that lists this process is taken."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            folder = CONTROL_GROUPS / ("memory" if controllers else "") / path.lstrip("/")
            with contextlib.suppress(OSError):
                if str(os.getpid()) in (folder / "cgroup.procs").read_text().split():
                    names = ["memory.oom_control"] if controllers else ["memory.events.local", "memory.events"]
                    yield from (folder / name for name in names)
