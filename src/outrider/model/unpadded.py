"""GPU attention kernels that process packed sequences without padding.

Two kernels are supported: the package flash-attn, and ``varlen_attn``, which is part of PyTorch. Both implement
FlashAttention-2 for bfloat16 and float16. Without either kernel, sequences are padded for
``scaled_dot_product_attention`` (``sdpa``).

``varlen_attn`` is compared with ``sdpa`` on each device before its first use, in the forward and in the backward pass.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Kernel = Literal["flash_attention_2", "varlen", "sdpa"]

Unpadded = Callable[[Tensor, Tensor, Tensor, Tensor, int, float, int | None], Tensor]
"""Causal attention over packed sequences: ``q [E, H, D]``, ``k`` and ``v [E, KV, D]``, the bounds of the sequences
(int32: 0, and the end of each sequence), the longest sequence, the scale, and the window, which counts the token
itself. Returns ``[E, H, D]``."""

_ARGUMENTS = {"scale", "window_size", "enable_gqa"}  # the first versions of varlen_attn lack some of these
_LARGEST_HEAD = 256
_BOUND = 0.05
"""Largest allowed error of an output or gradient of order 1: six times the spacing of bfloat16 numbers at 1."""


def attention_on(device: torch.device, dtype: torch.dtype) -> Kernel:
    """Return the name of the attention kernel to use for packed sequences, given their device and dtype."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return "sdpa"
    if importlib.util.find_spec("flash_attn"):
        return "flash_attention_2"
    return "varlen" if _has_varlen() and _varlen_agrees(device, dtype) else "sdpa"


def kernel_for(q_1HTD: Tensor) -> Unpadded | None:
    """Return the kernel for these queries; None if sequences have to be padded."""
    name, size = attention_on(q_1HTD.device, q_1HTD.dtype), q_1HTD.shape[-1]
    fits = name != "varlen" or (size % 8 == 0 and size <= _LARGEST_HEAD)  # flash-attn pads a head itself
    return UNPADDED.get(name) if fits else None


def flash_attn(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, longest: int, scale: float, window: int | None
) -> Tensor:
    """Compute attention with the package flash-attn."""
    from flash_attn import flash_attn_varlen_func  # type: ignore[import-not-found]  # only with a GPU

    out: Tensor = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=bounds,
        cu_seqlens_k=bounds,
        max_seqlen_q=longest,
        max_seqlen_k=longest,
        softmax_scale=scale,
        causal=True,
        window_size=_side(window),
    )
    return out


def varlen_attn(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, longest: int, scale: float, window: int | None
) -> Tensor:
    """Compute attention with PyTorch's kernel."""
    from torch.nn.attention import varlen

    out = varlen.varlen_attn(
        q,
        k,
        v,
        bounds,
        bounds,
        longest,
        longest,
        scale=scale,
        window_size=(_side(window)[0], 0),  # 0 tokens to the right: causal
        enable_gqa=k.shape[1] != q.shape[1],
    )
    assert isinstance(out, Tensor)
    return out


UNPADDED: Mapping[str, Unpadded] = {"flash_attention_2": flash_attn, "varlen": varlen_attn}


def _side(window: int | None) -> tuple[int, int]:
    """Return the ``window_size`` of a kernel: how many tokens a token attends to before and after itself; -1 for no
    limit. ``window`` counts the token itself, but ``window_size`` does not."""
    return (-1, -1) if window is None else (window - 1, 0)


@cache
def _has_varlen() -> bool:
    """Whether this version of PyTorch has ``varlen_attn`` with all the arguments that are needed."""
    if importlib.util.find_spec("torch.nn.attention.varlen") is None:
        return False
    from torch.nn.attention.varlen import varlen_attn as kernel

    return signature(kernel).parameters.keys() >= _ARGUMENTS


@cache
def _varlen_agrees(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether PyTorch's kernel runs on this device and agrees with ``sdpa`` to within ``_BOUND``."""
    try:
        # a comparison with NaN is False
        return all(gap_to_sdpa(varlen_attn, device, dtype, window) <= _BOUND for window in (None, 3))
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # a GPU that is too old for the kernel, or a build without the kernel
        return False


def gap_to_sdpa(kernel: Unpadded, device: torch.device, dtype: torch.dtype, window: int | None) -> float:
    """Compare a kernel's outputs and gradients with those of ``sdpa`` computed in float32, and return the largest
    difference.

    The comparison uses three sequences of 1, 5 and 9 tokens, and two query heads per key head. A NaN gives NaN.
    """
    # whatever surrounds the first use: a sampler's inference mode, or a learner's autocast
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
        return _gap(kernel, device, dtype, window)


def _gap(kernel: Unpadded, device: torch.device, dtype: torch.dtype, window: int | None) -> float:
    lengths, heads, keys, size, scale = (1, 5, 9), 4, 2, 64, 0.125
    generator = torch.Generator().manual_seed(0)

    def drawn(number: int) -> Tensor:
        return torch.randn(sum(lengths), number, size, generator=generator).to(device, dtype)

    q, k, v, grad = drawn(heads), drawn(keys), drawn(keys), drawn(heads)
    bounds = F.pad(torch.tensor(lengths, device=device).cumsum(0), (1, 0)).int()

    def unpadded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return kernel(q, k, v, bounds, max(lengths), scale, window)

    def padded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True)
        return torch.cat([_padded(*part, scale, window) for part in parts])

    found = _with_gradients(unpadded, (q, k, v), grad)
    wanted = _with_gradients(padded, (q.float(), k.float(), v.float()), grad.float())
    # a tensor's maximum keeps a NaN, which Python's would drop
    return float(torch.stack([(a.float() - b).abs().max() for a, b in zip(found, wanted, strict=True)]).max())


def _with_gradients(
    attention: Callable[[Tensor, Tensor, Tensor], Tensor], qkv: tuple[Tensor, Tensor, Tensor], grad: Tensor
) -> list[Tensor]:
    """Return the attention's output, and the gradients of queries, keys and values."""
    q, k, v = (x.clone().requires_grad_() for x in qkv)
    out = attention(q, k, v)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), grad)]


def _padded(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, scale: float, window: int | None) -> Tensor:
    at = torch.arange(len(q_THD), device=q_THD.device)
    gap = at[:, None] - at
    near = (gap >= 0) & (gap < (window or len(at)))
    q, k, v = (x.transpose(0, 1) for x in (q_THD, k_THD, v_THD))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near, scale=scale, enable_gqa=True).transpose(0, 1)
