"""Makes gradients on a GPU bit-identical in repeated runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from outrider.errors import UserError

_NONE = " does not have a deterministic implementation"


@contextmanager
def deterministic_algorithms(wanted: bool = True) -> Iterator[None]:
    """Context manager that enables PyTorch's deterministic algorithms if ``wanted``.

    A GPU adds terms (of attention gradients, for example) in the order in which its threads arrive, so the last bits of
    a gradient differ between runs. A CPU with the same number of threads always sums in the same order.

    >>> with deterministic_algorithms():
    ...     torch.zeros(2).put_(torch.tensor([0, 0]), torch.ones(2))
    Traceback (most recent call last):
    outrider.errors.UserError: learn.deterministic=true: PyTorch has no deterministic algorithm for put_; leave it false

    Raises:
        UserError: PyTorch has no deterministic algorithm for an operation, or has one that needs an environment
            variable.
    """
    if not wanted:
        yield
        return
    memory: Any = torch.utils.deterministic  # the switch is an untyped property of the module's class
    fills, mode = memory.fill_uninitialized_memory, torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")  # with warnings only, attention would stay non-deterministic
    memory.fill_uninitialized_memory = False  # a debugging aid, which would fill all new memory
    try:
        yield
    except RuntimeError as error:
        if "CUBLAS_WORKSPACE_CONFIG" in str(error):  # cuBLAS may read it only once, at the first matmul
            raise UserError(
                "learn.deterministic=true: this PyTorch requires the environment variable "
                "CUBLAS_WORKSPACE_CONFIG=:4096:8: set it before the run starts"
            ) from error
        operation, found, _ = str(error).partition(_NONE)
        if not found:
            raise
        raise UserError(
            f"learn.deterministic=true: PyTorch has no deterministic algorithm for {operation}; leave it false"
        ) from error
    finally:
        torch.set_deterministic_debug_mode(mode)
        memory.fill_uninitialized_memory = fills
