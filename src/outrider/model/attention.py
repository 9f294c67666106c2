"""One attention function for all Hugging Face models, whose computation can be replaced in every forward pass.

The learner packs sequences, and the sampler has its own KV cache, so both must replace a model's attention. They call
``model(..., plan=plan)``, where ``plan.attend`` computes the attention. transformers forwards the plan to the
registered attention function, so the model itself is not changed, and LoRA adapters, gradient checkpointing and
sharding work as usual.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface, PreTrainedModel

from outrider.errors import UserError
from outrider.model.packing import Packing
from outrider.model.unpadded import Unpadded, kernel_for
from outrider.on_device import on_device

NAME = "outrider"


class AttentionPlan(Protocol):
    """Computes attention in one forward pass. ``q`` has the shape ``[B, H, Q, D]``, ``k`` and ``v`` have ``[B, KV, Q,
    D]``, and the result has ``[B, Q, H, D]``, with ``H`` query heads, ``KV`` key-value heads and ``Q`` tokens.
    """

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor: ...


@torch.no_grad()
def use_plans(model: PreTrainedModel) -> None:
    """Let ``model(..., plan=plan)`` compute attention with ``plan``, and check that every layer does so.

    Raises:
        UserError: the architecture has layers whose attention cannot be replaced.
    """
    refusal = UserError(f"{type(model).__name__} has layers whose attention cannot be replaced")
    try:
        model.set_attn_implementation(NAME)
    except (ValueError, NotImplementedError) as error:
        raise refusal from error
    # A layer that mixes tokens in another way (a state-space or linear-attention layer) would let packed sequences
    # see one another without any error. So one small forward pass records which layers call the plan.
    called: set[int] = set()
    two = torch.zeros(1, 2, dtype=torch.int64, device=model.device)
    try:
        model.get_decoder()(
            input_ids=two, position_ids=torch.tensor([[0, 1]]).to(two), plan=_CallRecorder(called), use_cache=False
        )
    except TypeError as error:  # no such arguments: remote code, or no attention at all
        raise refusal from error
    if called != set(range(model.config.get_text_config().num_hidden_layers)):
        raise refusal


def use_own(model: PreTrainedModel) -> None:
    """Undo :func:`use_plans`: restore transformers' default attention. The function does nothing if the default
    attention is already in use."""
    if model.config._attn_implementation == NAME:
        model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")


class _CallRecorder:
    """An :class:`AttentionPlan` that records the layers that call it. Every token attends only to itself."""

    def __init__(self, called: set[int]) -> None:
        self._called = called

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        self._called.add(layer)
        return v.repeat_interleave(q.shape[1] // v.shape[1], 1).transpose(1, 2)


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    plan: AttentionPlan | None = None,
    **extras: Any,
) -> tuple[Tensor, None]:
    if plan is None:
        raise RuntimeError("its layers do not pass the plan to their attention")
    # both arguments change the softmax; if they were ignored, results would silently differ from the model's
    for name in ("softcap", "s_aux"):
        if extras.get(name) is not None:
            raise UserError(f"{type(module).__name__} uses {name} in its attention, which is not supported")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    # Under autocast the rotary embedding returns float32, while values are bfloat16; kernels need one type.
    query, key = query.to(value.dtype), key.to(value.dtype)
    mixed = plan.attend(module.layer_idx, query, key, value, scale, sliding_window)  # type: ignore[arg-type]
    return mixed.contiguous(), None  # contiguous, as some models take a view of it


AttentionInterface.register(NAME, _attend)


class Packed:
    """Causal attention over packed sequences, ``[1, H, T, D]``. For attention, this class pads the sequences, and
    repeats a context that several sequences share. The rest of the model computes on the packed tokens, which contain
    such a context once.
    """

    def __init__(self, packing: Packing, device: torch.device) -> None:
        lengths = np.array(packing.lengths)
        self.rows, self.width = len(lengths), int(lengths.max())
        ends_B = lengths.cumsum()
        # starts of sequences, and the end of the last one
        self._bounds = on_device(np.append(0, ends_B).astype(np.int32), device)
        at_E = np.arange(ends_B[-1])
        cells_E = at_E + np.repeat(np.arange(self.rows) * self.width - (ends_B - lengths), lengths)
        # index of each token of each sequence in the padded ``[B * L]``
        self._cells_E = self._cells_T = on_device(cells_E, device)
        # None if no context is shared; every token is then in one sequence, and E = T
        self._places_E: Tensor | None = None
        self._firsts_T: Tensor | None = None
        if packing.shares:
            self._places_E = on_device(packing.places_E, device)
            # a shared token's output is taken from its first sequence; all sequences give the same result
            self._firsts_T = on_device(np.unique(packing.places_E, return_index=True)[1], device)
            self._cells_T = self._cells_E[self._firsts_T]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        if (kernel := kernel_for(q)) is not None:
            return self._attend_unpadded(kernel, q, k, v, scale, window)
        gqa = k.shape[1] != q.shape[1]
        q, k, v = (self._pad(self._repeated(x)) for x in (q, k, v))
        # Padding is on the right, so a causal token never sees it, and no mask is needed: with is_causal alone PyTorch
        # may choose its fast kernels.
        if window is None or window >= self.width:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=gqa)
        else:
            at = torch.arange(self.width, device=q.device)
            # the window counts the token itself
            near = (at[:, None] >= at[None, :]) & (at[:, None] - at[None, :] < window)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=near, scale=scale, enable_gqa=gqa)
        out_BL = out.transpose(1, 2).reshape(self.rows * self.width, *out.shape[1:2], out.shape[-1])
        # drops padding, whose values are meaningless
        return out_BL.index_select(0, self._cells_T)[None]

    def _attend_unpadded(
        self, kernel: Unpadded, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None
    ) -> Tensor:
        q, k, v = (self._repeated(x).contiguous() for x in (q, k, v))
        out_EHD = kernel(q, k, v, self._bounds, self.width, scale, window)
        return (out_EHD if self._firsts_T is None else out_EHD.index_select(0, self._firsts_T))[None]

    def _repeated(self, x: Tensor) -> Tensor:
        """Convert ``[1, H, T, D]`` to ``[E, H, D]``, by copying a shared context for each sequence that shares it.
        ``T`` counts the context's tokens once, and ``E`` counts them once per sequence.
        """
        x_THD = x[0].transpose(0, 1)
        return x_THD if self._places_E is None else x_THD.index_select(0, self._places_E)

    def _pad(self, x_EHD: Tensor) -> Tensor:
        """Convert ``[E, H, D]`` to ``[B, H, L, D]``, with zeros after the end of a sequence."""
        padded = x_EHD.new_zeros(self.rows * self.width, *x_EHD.shape[1:]).index_copy(0, self._cells_E, x_EHD)
        return padded.view(self.rows, self.width, *x_EHD.shape[1:]).transpose(1, 2)
