"""Makes a pass that runs out of memory raise an error that can be caught, on a CPU as well as on a GPU.

CUDA's allocator raises an error. On a CPU the kernel overcommits memory, and kills a process that uses too much memory.
Therefore, during a pass, the process's data may grow only by the process's share of the available memory
(``RLIMIT_DATA``). Above this limit, PyTorch's allocator raises an error, and the process continues.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from outrider.errors import UserError

_WORDS = (
    "can't allocate memory",  # PyTorch's allocator on a CPU
    "std::bad_alloc",
    "could not create a memory object",  # oneDNN
    "could not create a primitive",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
_LOCK = threading.Lock()
_FOUND: list[tuple[int, int]] = []
_INSIDE: list[None] = []
_KEPT = 0.95  # share of the available memory; the rest is for other programs


class Passes(NamedTuple):
    """The size of forward and backward passes, and whether activations are recomputed."""

    tokens: int
    recomputed: bool

    def __str__(self) -> str:
        return f"learn.micro_tokens={self.tokens} learn.gradient_checkpointing={str(self.recomputed).lower()}"

    def smaller(self, tokens: int, longest: int) -> Passes:
        """Return the next smaller pass size. ``tokens`` is the number of tokens of the pass that did not fit in memory.

        Raises:
            UserError: the pass already contained only the longest row, with recomputed activations.
        """
        if tokens > longest:
            return Passes(max(longest, tokens // 2), self.recomputed)
        if not self.recomputed:
            return Passes(tokens, True)
        raise UserError(
            f"a pass of {longest} tokens, the longest response with its prompt, does not fit in memory: use a smaller "
            "sample.max_tokens, policy.lora or a smaller model"
        )


def ran_out(error: BaseException) -> bool:
    """Whether an error is an out-of-memory error of a GPU or CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


@contextmanager
def memory_limit(free: int | None) -> Iterator[None]:
    """Context manager that limits this process to about ``free`` additional bytes. If ``free`` is None, there is no
    limit.

    Systems without ``RLIMIT_DATA`` have no limit.
    """
    if free is None:
        yield
        return
    import resource

    with _LOCK:  # ranks may be threads of one process; the last one to leave restores the original limit
        if not _FOUND:
            _FOUND.append(resource.getrlimit(resource.RLIMIT_DATA))
        _INSIDE.append(None)
        soft, hard = _FOUND[0]
    limit = _held() + int(_KEPT * free)
    known = [value for value in (soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *known]), hard))
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.pop()
            if not _INSIDE:
                resource.setrlimit(resource.RLIMIT_DATA, _FOUND.pop())


def available(root: Path = Path("/")) -> int | None:
    """Return the available memory in bytes, including swap, or the container's free memory if that is less.

    Return None if the amount is unknown, for example outside Linux.

    Args:
        root: folder that contains ``proc`` and ``sys``.
    """
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        free = (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0)) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return min([free, *_container(root)])


def _container(root: Path) -> list[int]:
    """Return the container's free memory in bytes, from its top control group, as a list of one number. The list is
    empty if there is no limit. Inactive file caches count as free memory.
    """
    group = root / "sys/fs/cgroup"
    try:
        limit, taken = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return [max(0, limit - taken + int(stat.get("inactive_file", 0)))]
    except (OSError, ValueError):  # "max" (no limit), or no such group
        return []


def _held() -> int:
    """Return the size of this process's data in bytes, as counted by ``RLIMIT_DATA``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
