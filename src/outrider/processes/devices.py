"""Finds the devices that a run can use on this machine, and their memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from outrider.errors import UserError

RUNS_AT_ONCE = "OUTRIDER_RUNS_AT_ONCE"
"""Environment variable with the number of runs that share host memory. ``outrider bench`` sets this variable."""
_DRIVERS = ("/proc/driver/nvidia", "/dev/kfd")  # NVIDIA and AMD
_UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2 ** 63


class Devices(NamedTuple):
    """The devices of a run.

    Attributes:
        number: number of GPUs; 1 if there is no GPU.
        size: memory in bytes of the GPU with the least memory, or of the host if there is no GPU.
        name: name of the GPU with the least memory; a description of the host if there is no GPU.
        host: whether ``size`` is host memory, which all processes share.
    """

    number: int
    size: int
    name: str
    host: bool


def find_devices() -> Devices | None:
    """Return this machine's GPUs or, if it has none, its host memory. Return None if the memory is unknown."""
    if driver_there():  # checked first, since importing torch takes a second
        import torch

        if torch.cuda.is_available():
            found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
            smallest = min(found, key=lambda one: one.total_memory)
            return Devices(len(found), smallest.total_memory, smallest.name, host=False)
    size, runs = host_share(), runs_at_once()
    if size is None:
        return None
    return Devices(1, size, "this machine" if runs == 1 else f"this machine for each of {runs} runs", host=True)


def driver_there() -> bool:
    """Return whether this machine has a GPU driver."""
    return shutil.which("nvidia-smi") is not None or any(Path(sign).exists() for sign in _DRIVERS)


def runs_at_once() -> int:
    """Return the number of runs that share host memory, from ``OUTRIDER_RUNS_AT_ONCE``; 1 if it is not set.

    Raises:
        UserError: the variable is not a whole number, or is less than 1.
    """
    given = os.environ.get(RUNS_AT_ONCE, "1")
    if not (given.isdecimal() and int(given)):
        raise UserError(f"{RUNS_AT_ONCE} is {given!r}; use a whole number from 1, such as {RUNS_AT_ONCE}=2")
    return int(given)


def host_share() -> int | None:
    """Return this run's share of host memory in bytes (all memory / :func:`runs_at_once`); None if unknown."""
    whole, runs = host_memory(), runs_at_once()
    return None if whole is None else whole // runs


def host_memory(root: Path = Path("/")) -> int | None:
    """Return the host memory in bytes or, if lower, the memory limit of this process's container; None if unknown.

    Args:
        root: folder that contains ``proc`` and ``sys``.
    """
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not available on Windows
        return None
    return min([whole, *_limits(root)])


def _limits(root: Path) -> list[int]:
    """Return the memory limits of this process's control groups (cgroup v1 and v2) and their parents, in bytes."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    limits = []
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers == "":
            top, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # in a container, the group's own path often does not exist, and the top folder has the limit
        inner = top / path.lstrip("/")
        for group in [inner, *inner.parents]:
            if group == top.parent:
                break
            try:
                limits.append(int((group / file).read_text()))
            except (OSError, ValueError):  # missing, or "max"
                continue
    return [limit for limit in limits if limit < _UNLIMITED]
