"""Gradient checkpointing: memory of a layer's input instead of its activations, for a second forward pass."""

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
    """Let every layer keep only its input, and compute the rest again in the backward pass.

    Without gradients nothing changes.

    Raises:
        UserError: the architecture has no layers that can do so.
    """
    layers = layers_of(model, "learn.gradient_checkpointing")
    # The switch of transformers works in training mode only. There, layers with a dropout of their own (OPT, BioGPT,
    # XGLM) would use it, and every layer would ignore the cache that the plain sampler hands it.
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def layers_of(model: PreTrainedModel, wanted_by: str) -> list[GradientCheckpointingLayer]:
    """The layers of a model.

    Raises:
        UserError: the architecture has none that transformers marks as such; ``wanted_by`` is the key that asks.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"{wanted_by}: {type(model).__name__} has no layers that can do so")
    return layers


def _recomputed(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **named)
    # the model is in evaluation mode and draws nothing, so no random state has to be kept
    return checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False, **named)
