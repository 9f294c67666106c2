"""Reads the kernel's count of out-of-memory kills. Without this count, an out-of-memory kill could not be distinguished
from a signal sent by another process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def memory_failures() -> int | None:
    """Return the number of out-of-memory kills so far; None if the kernel does not report this number.

    The count covers this process's control group (cgroup) if there is one, otherwise the whole machine
    (``/proc/vmstat``).
    """
    # Sandboxed programs run in this control group, so other groups do not matter. If the whole machine has no memory,
    # the kernel counts the kill in the killed process's group.
    for file in (*_own_counts(), Path("/proc/vmstat")):
        with contextlib.suppress(OSError):
            counts = dict(line.split()[:2] for line in file.read_text().splitlines())
            if "oom_kill" in counts:
                return int(counts["oom_kill"])
    return None


def _own_counts() -> Iterator[Path]:
    """Yield the files in which this process's control group (cgroup version 1 or 2) counts processes killed for lack of
    memory."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            folder = CONTROL_GROUPS / ("memory" if controllers else "") / path.lstrip("/")
            with contextlib.suppress(OSError):
                # in a container, the path may belong to another group
                if str(os.getpid()) in (folder / "cgroup.procs").read_text().split():
                    names = ["memory.oom_control"] if controllers else ["memory.events.local", "memory.events"]
                    yield from (folder / name for name in names)
