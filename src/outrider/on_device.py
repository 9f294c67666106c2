"""Copies arrays to a device."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def on_device(array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array to a device. For a GPU, the array is copied from pinned memory, since a copy from other memory
    makes the process wait for the GPU."""
    host = torch.from_numpy(array)
    if device.type != "cuda":
        return host.to(device, dtype)
    return host.pin_memory().to(device, non_blocking=True).to(dtype or host.dtype)
