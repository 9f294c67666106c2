"""How often the kernel ended a process because memory ran out, which looks like a signal from elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def memory_failures() -> int | None:
    """The number of processes ended for this reason so far; None where the kernel does not tell.

    It is the count of our own control group, where there is one, else that of the machine (``/proc/vmstat``).
    """
    # Sandboxed programs run in our control group, and other groups do not matter here. A kill for lack of the whole
    # machine's memory is counted in the group of the killed process.
    for file in (*_own_counts(), Path("/proc/vmstat")):
        with contextlib.suppress(OSError):
            counts = dict(line.split()[:2] for line in file.read_text().splitlines())
            if "oom_kill" in counts:
                return int(counts["oom_kill"])
    return None


def _own_counts() -> Iterator[Path]:
    """The files with the counts of our control group, of version 2 or 1."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            folder = CONTROL_GROUPS / ("memory" if controllers else "") / path.lstrip("/")
            with contextlib.suppress(OSError):
                # in a container the path may mean another group
                if str(os.getpid()) in (folder / "cgroup.procs").read_text().split():
                    names = ["memory.oom_control"] if controllers else ["memory.events.local", "memory.events"]
                    yield from (folder / name for name in names)
