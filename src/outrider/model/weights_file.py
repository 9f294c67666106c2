"""The weights of a model as one file, for engines that read them from a folder."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import PreTrainedModel

from outrider.model.lora import merged
from outrider.record.disk import disk_refused

WEIGHTS = "model.safetensors"


@torch.no_grad()
def write_weights(model: PreTrainedModel, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write every weight under its Hugging Face name into ``folder``, an adapter added to the weights beneath it.

    ``dtype`` rounds them to what their reader computes with, where they are wider.

    A head that is tied to the embedding is written under its own name too: vLLM keeps a copy of it, which it does not
    renew when the embedding alone is given.

    Raises:
        UserError: the disk refuses.
    """
    written: set[int] = set()
    tensors = {}
    for name, tensor in merged(model).state_dict().items():
        tied = tensor.data_ptr() in written
        written.add(tensor.data_ptr())
        narrow = dtype is not None and tensor.is_floating_point() and tensor.itemsize > dtype.itemsize
        rounded = tensor.detach().to(dtype) if narrow else tensor.detach()
        tensors[name] = rounded.clone() if tied else rounded.contiguous()
    try:
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise disk_refused(folder, error) from error
