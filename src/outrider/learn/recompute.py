"""Gradient checkpointing: memory of a layer's input instead of its activations, for a second forward pass."""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from outrider.errors import UserError


def recompute_layers(model: PreTrainedModel) -> None:
    """Have every layer keep its input alone and compute the rest again in the backward pass.

    The layers are told to be in training, which is where transformers looks, and nothing within them: no dropout wakes
    up, so nothing random has to be repeated. What needs no gradient is computed as before.

    Raises:
        UserError: the architecture has no layers that can do so.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"learn.gradient_checkpointing: {type(model).__name__} has no layers that can do so")
    for layer in layers:
        layer.gradient_checkpointing = True
        again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        layer._gradient_checkpointing_func = again  # type: ignore[assignment]  # torch's catch-all for attributes
        layer.training = True
