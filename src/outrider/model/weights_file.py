"""The weights of a model as one file, for engines that read them from a folder."""

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
    """Write every weight under its Hugging Face name into ``folder``, an adapter added to the weights beneath it.

    ``dtype`` rounds them to what their reader computes with, where they are wider.

    A head that is tied to the embedding is written under its own name too: vLLM keeps a copy of it, which it does not
    renew when the embedding alone is given.

    Raises:
        UserError: the disk refuses.
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
