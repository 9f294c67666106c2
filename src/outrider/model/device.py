"""The device, dtype and attention kernel of a model."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch

from outrider.model.unpadded import Kernel, attention_on

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Placement(NamedTuple):
    """The placement of a policy on this machine's devices.

    Attributes:
        device: ``cpu`` if there is no CUDA device; otherwise ``cuda:0`` or, under torchrun, the GPU of the local rank.
        dtype: dtype of matmuls.
        attention: the learner's attention kernel (:mod:`outrider.model.unpadded`).
    """

    device: torch.device
    dtype: torch.dtype
    attention: Kernel

    def __str__(self) -> str:
        name = f" ({torch.cuda.get_device_name(self.device)})" if self.device.type == "cuda" else ""
        return f"{self.device}{name}, {str(self.dtype).removeprefix('torch.')}, attention by {self.attention}"


def placement(dtype: str = "float32") -> Placement:
    """Return the device, matmul dtype and attention kernel on this machine, for a policy with this ``policy.dtype``.

    >>> str(placement()) if not torch.cuda.is_available() else "cpu, float32, attention by sdpa"
    'cpu, float32, attention by sdpa'
    """
    there = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if there else torch.device("cpu")
    return Placement(device, DTYPES[dtype], attention_on(device, DTYPES[dtype]))


def products_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Context manager in which matmuls use ``dtype``, for weights of any dtype. If ``dtype`` is float32, the context
    manager has no effect.
    """
    return torch.autocast(device.type, dtype, enabled=dtype is not torch.float32)
