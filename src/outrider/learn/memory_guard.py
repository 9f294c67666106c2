"""Memory that runs out in a pass, as an error that can be caught, on a CPU too.

CUDA's allocator raises. On a CPU the kernel promises more memory than there is, and kills a process that takes it. So
for the time of a pass the process gets a limit of the data that it may hold (``RLIMIT_DATA``): what it holds and its
share of what is available. Beyond it PyTorch's allocator raises, and the process goes on.
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
_KEPT = 0.95  # of what is available; the rest is for other programs


class Passes(NamedTuple):
    """How large forward and backward passes are, and whether activations are computed twice."""

    tokens: int
    recomputed: bool

    def __str__(self) -> str:
        return f"learn.micro_tokens={self.tokens} learn.gradient_checkpointing={str(self.recomputed).lower()}"

    def smaller(self, tokens: int, longest: int) -> Passes:
        """The next smaller ones than ``tokens``, which did not fit.

        Raises:
            UserError: it was the longest row alone, with nothing kept.
        """
        if tokens > longest:
            return Passes(max(longest, tokens // 2), self.recomputed)
        if not self.recomputed:
            return Passes(tokens, True)
        raise UserError(
            f"memory does not hold a pass of {longest} tokens, the longest response with its prompt: take a smaller "
            "sample.max_tokens, policy.lora or a smaller model"
        )


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or on a CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


@contextmanager
def memory_limit(free: int | None) -> Iterator[None]:
    """A block in which this process takes at most so many bytes more; None: any number.

    Nothing is limited where the system has no such limit.
    """
    if free is None:
        yield
        return
    import resource

    with _LOCK:  # ranks may be threads of one process, and the last one to leave restores what the first one found
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
    """Bytes that programs can take without others losing theirs, swap included; of the container, if that is less.

    None where the system does not say, as outside of Linux.

    Args:
        root: where ``proc`` and ``sys`` are.
    """
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        free = (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0)) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return min([free, *_container(root)])


def _container(root: Path) -> list[int]:
    """What the control group at the top of a container leaves, its caches aside."""
    group = root / "sys/fs/cgroup"
    try:
        limit, taken = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return [max(0, limit - taken + int(stat.get("inactive_file", 0)))]
    except (OSError, ValueError):  # "max", or no such group
        return []


def _held() -> int:
    """Bytes of data of this process, as ``RLIMIT_DATA`` counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
