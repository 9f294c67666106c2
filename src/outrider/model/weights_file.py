"""Provides a model's weights under their Hugging Face names, as a safetensors file or as tensors in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from outrider.model.lora import adapted_layers, folded, without_adapter
from outrider.model.tensors_file import Pending, pending, write_tensors

WEIGHTS = "model.safetensors"


@torch.no_grad()
def write_weights(model: PreTrainedModel, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write every weight into ``folder``, under the names and in the dtypes of :func:`named_weights`.

    Raises:
        UserError: the file cannot be written.
    """
    write_tensors(folder / WEIGHTS, _pending_weights(model, dtype))


@torch.no_grad()
def named_weights(model: PreTrainedModel, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield every weight under its Hugging Face name. An adapter is merged into the weights that it adapts.

    Weights in a wider dtype are rounded to ``dtype``, the compute dtype of the engine that gets the weights. A rounded
    or merged weight is computed only when the iteration reaches it; all other weights share memory with the model.

    An LM head that is tied to the embedding is also yielded under the head's own name. vLLM keeps a copy of the head,
    and does not update this copy if it gets only the embedding.
    """
    for name, tensor in _pending_weights(model, dtype).items():
        yield name, tensor.make().to(tensor.dtype)


def _pending_weights(model: PreTrainedModel, dtype: torch.dtype | None) -> dict[str, Pending]:
    plain, adapted = without_adapter(model), adapted_layers(model)
    tensors = {name: pending(tensor) for name, tensor in plain.state_dict().items()}
    for name, layer in adapted.items():
        tensors[f"{name}.weight"] = tensors[f"{name}.weight"]._replace(make=partial(folded, layer))
    if dtype is not None:
        for name, tensor in tensors.items():
            if tensor.dtype.is_floating_point and tensor.dtype.itemsize > dtype.itemsize:
                tensors[name] = tensor._replace(dtype=dtype)
    return tensors
