"""The processes of a learner, and collective operations between these processes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from torch import Tensor


class Processes(Protocol):
    """The processes of a run, as seen by one of them."""

    rank: int
    size: int

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over ranks, in place."""
        ...

    def linked(self) -> AbstractContextManager[None]:
        """Return a context manager that marks code with collective operations. During a collective operation, the GPUs
        of all ranks wait for each other."""
        ...


class OneProcess:
    """A run of one process."""

    rank, size = 0, 1

    def sum_(self, tensor: Tensor) -> Tensor:
        return tensor

    def linked(self) -> AbstractContextManager[None]:
        return nullcontext()
