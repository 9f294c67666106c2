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
    """Have every layer keep its input alone and compute the rest again in the backward pass.

    Transformers has a switch for this that works in training mode alone. There, layers with a dropout of their own
    (OPT, BioGPT, XGLM) would drop, and every layer would forget the cache that the plain sampler hands it. So layers
    are left as they are, and what calls them decides: where no gradient is asked for, nothing is different.

    Raises:
        UserError: the architecture has no layers that can do so.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"learn.gradient_checkpointing: {type(model).__name__} has no layers that can do so")
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False, **named)
