"""Finds the CPU cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> list[int]:
    """Return the cores in this process's CPU affinity. If the container's CPU quota is lower, return only as many cores
    as the quota allows."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()  # the affinity does not reflect this quota
        allowed = len(cores) if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        allowed = len(cores)
    return cores[:allowed]


def ranks_on_cpu(cores: int, samples_apart: bool) -> int:
    """Return the default number of ranks on a CPU: one per core, or one per two cores if each rank also has a sampling
    process.

    >>> ranks_on_cpu(8, False), ranks_on_cpu(8, True), ranks_on_cpu(1, True)
    (8, 4, 1)
    """
    return max(1, cores // 2) if samples_apart else cores


def pin(core: int) -> None:
    """Pin this process and its child processes to one core. On a system without CPU affinity, this has no effect."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
