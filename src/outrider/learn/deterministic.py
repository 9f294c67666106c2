"""The same gradient to the last bit, each time that it is computed: on a GPU too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from outrider.errors import UserError

_NONE = " does not have a deterministic implementation"


@contextmanager
def deterministic_algorithms(wanted: bool = True) -> Iterator[None]:
    """A block that computes by PyTorch's deterministic algorithms, where they are ``wanted``.

    A GPU adds in the order in which its threads arrive, the gradients of keys and values in attention for instance, so
    the last bits of a gradient differ from run to run. A CPU of as many threads adds in the same order each time.

    >>> with deterministic_algorithms():
    ...     torch.zeros(2).put_(torch.tensor([0, 0]), torch.ones(2))
    Traceback (most recent call last):
    outrider.errors.UserError: learn.deterministic=true: PyTorch has no deterministic algorithm for put_; leave it false

    Raises:
        UserError: PyTorch has none for an operation of the block, or an older one wants a variable of the environment.
    """
    if not wanted:
        yield
        return
    memory: Any = torch.utils.deterministic  # its switch is one of the module's class, which has no type
    fills, mode = memory.fill_uninitialized_memory, torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")  # with warnings alone attention would stay as it is
    memory.fill_uninitialized_memory = False  # it finds bugs, and writes all memory once more
    try:
        yield
    except RuntimeError as error:
        if "CUBLAS_WORKSPACE_CONFIG" in str(error):  # it may be read once, at the first product, long before
            raise UserError(
                "learn.deterministic=true: this PyTorch wants CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment in "
                "which the run begins"
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
