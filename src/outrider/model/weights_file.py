"""Writes the weights of a model to one file, for engines that read weights from a folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from outrider.model.lora import adapted_layers, folded, without_adapter
from outrider.model.tensors_file import pending, write_tensors

WEIGHTS = "model.safetensors"


@torch.no_grad()
def write_weights(model: PreTrainedModel, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write every weight under its Hugging Face name into ``folder``, with an adapter merged.

    Weights in a wider dtype are rounded to ``dtype``, the compute dtype of the engine that reads the file.

    An LM head that is tied to the embedding is also written under the head's own name. vLLM keeps a copy of the head,
    and does not update this copy if the file has only the embedding.

    Raises:
        UserError: the file cannot be written.
    """
    plain, adapted = without_adapter(model), adapted_layers(model)
    tensors = {name: pending(tensor) for name, tensor in plain.state_dict().items()}
    for name, layer in adapted.items():
        tensors[f"{name}.weight"] = tensors[f"{name}.weight"]._replace(make=partial(folded, layer))
    if dtype is not None:
        for name, tensor in tensors.items():
            if tensor.dtype.is_floating_point and tensor.dtype.itemsize > dtype.itemsize:
                tensors[name] = tensor._replace(dtype=dtype)
    write_tensors(folder / WEIGHTS, tensors)
