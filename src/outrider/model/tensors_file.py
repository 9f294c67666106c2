"""Writes a safetensors file, one tensor at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from outrider.record.disk import disk_refused

# from https://github.com/huggingface/safetensors, "Format"
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Pending(NamedTuple):
    """A tensor that is computed only when it is written."""

    shape: torch.Size
    dtype: torch.dtype
    make: Callable[[], Tensor]


def pending(tensor: Tensor) -> Pending:
    """Wrap an existing tensor as :class:`Pending`, the form in which tensors are passed for writing."""
    return Pending(tensor.shape, tensor.dtype, tensor.detach)


@torch.no_grad()
def write_tensors(file: Path, tensors: Mapping[str, Pending]) -> None:
    """Write tensors under their names. Tensors are computed, or copied from their device, one at a time.

    The package safetensors, in contrast, copies all tensors to host memory before it writes the first tensor.

    Raises:
        UserError: the file cannot be written.
    """
    # wide dtypes first, so that each tensor begins at a multiple of its item size, as readers expect
    ordered = sorted(tensors.items(), key=lambda named: (-named[1].dtype.itemsize, named[0]))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + math.prod(tensor.shape) * tensor.dtype.itemsize
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    try:
        with file.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for _, tensor in ordered:
                made = tensor.make().to(tensor.dtype).contiguous().cpu()
                out.write(made.reshape(-1).view(torch.uint8).numpy().data)
                del made  # before the next tensor is computed
    except OSError as error:
        raise disk_refused(file.parent, error) from error
