"""Gradient checkpointing: stores only the inputs of layers, and recomputes activations in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from outrider.errors import UserError


def recompute_layers(model: PreTrainedModel) -> None:
    """Make every layer store only its input, and recompute its activations in the backward pass.

    Passes that compute no gradients are unaffected.

    Raises:
        UserError: transformers does not mark any layers as supporting gradient checkpointing in this architecture.
    """
    layers = layers_of(model, "learn.gradient_checkpointing")
    # The switch in transformers works only in training mode. In that mode, layers with their own dropout (OPT, BioGPT,
    # XGLM) would apply it, and every layer would ignore the KV cache that the plain sampler passes.
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def layers_of(model: PreTrainedModel, wanted_by: str) -> list[GradientCheckpointingLayer]:
    """Return the layers of a model. ``wanted_by`` is the recipe's option that needs the layers, for the error message.

    Raises:
        UserError: transformers does not mark any layers as supporting gradient checkpointing in this architecture.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"{wanted_by}: {type(model).__name__} has no layers that support this")
    return layers


def _recomputed(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **named)
    # the model is in evaluation mode without randomness, so no random state has to be stored
    return checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False, **named)
