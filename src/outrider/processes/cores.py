"""The cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> list[int]:
    """The cores of this process's affinity, at most as many as its quota allows."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()  # a container's share, which affinity hides
        allowed = len(cores) if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        allowed = len(cores)
    return cores[:allowed]


def pin(core: int) -> None:
    """Keep this process, and those it starts, on one core; nothing where the system has no such call."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
