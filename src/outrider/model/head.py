"""Computes log-probabilities and entropies of target tokens without creating a full ``[tokens, vocabulary]`` tensor.

The LM head is applied to chunks of tokens; the backward pass recomputes each chunk's logits. One chunk has at most
:func:`most_logits` logits, and the peak memory is that of a few such chunks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK = 8 * 1024 * 1024
"""Maximum number of logits in memory (32 MB in float32), for any vocabulary size. On a GPU, the maximum is
``GPU_CHUNKS`` times as large."""

GPU_CHUNKS = 8
"""Factor by which chunks are larger on a GPU than on a CPU. Each chunk reads the head's weights and adds to the
weights' gradient, both of which are larger than the chunk's logits. With a factor of 1, these reads and additions took
more than a third of an optimizer step of Qwen2.5 0.5B on an H100 (``docs/log.md``, 2026-11-26)."""


def most_logits(device: torch.device) -> int:
    """Return the maximum number of logits that are in memory at once (one chunk) on this device.

    >>> most_logits(torch.device("cuda")) // most_logits(torch.device("cpu"))
    8
    """
    return CHUNK * (GPU_CHUNKS if device.type == "cuda" else 1)


class TokenStatistics(NamedTuple):
    """Statistics of the distribution at each token, in nats.

    Attributes:
        logprobs_T: log-probability of the token.
        entropies_T: entropy of the distribution.
        top_TK: log-probabilities of the K most likely tokens, in descending order. If the vocabulary has fewer than K
            tokens, all of them are included.
    """

    logprobs_T: Tensor
    entropies_T: Tensor
    top_TK: Tensor


def token_statistics(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    bias_V: Tensor | None,
    targets_T: Tensor,
    temperature: float = 1.0,
    top: int = 0,
) -> TokenStatistics:
    r"""Return the log-probability of each target, the entropy of its distribution, and the ``top`` largest
    log-probabilities.

    With :math:`z = (W h + b) / \tau` in at least float32: :math:`\log p_y = z_y - \log\sum_v e^{z_v}` and :math:`H =
    \log\sum_v e^{z_v} - \sum_v p_v z_v`. All results are differentiable in hidden states, weight and bias. If there are
    no tokens, the tensors are empty. Matmuls use the dtype of the hidden states. The gradients of weight and bias are
    summed and returned in at least float32.

    >>> h, w = torch.randn(3, 4), torch.randn(7, 4)
    >>> lp, _, _ = token_statistics(h, w, None, torch.tensor([0, 6, 2]))
    >>> want = (h @ w.T).log_softmax(-1)[torch.arange(3), torch.tensor([0, 6, 2])]
    >>> bool(torch.allclose(lp, want, atol=1e-6))
    True
    """
    args = (hidden_TH, weight_VH, bias_V, targets_T, temperature, top)
    return TokenStatistics(*_TokenStatistics.apply(*args))  # type: ignore[no-untyped-call]


def logit_statistics(logits_NV: Tensor, targets_N: Tensor, temperature: float = 1.0, top: int = 0) -> TokenStatistics:
    """Return the same statistics as :func:`token_statistics`, but from the logits of the model's own head, which may
    scale or cap them.

    >>> logps, entropies, top = logit_statistics(torch.zeros(1, 4), torch.tensor([2]), top=2)
    >>> round(float(logps.exp()), 6), round(float(entropies.exp()), 6), top.exp().tolist()
    (0.25, 4.0, [[0.25, 0.25]])
    """
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    logps_NV = (logits_NV if temperature == 1.0 else logits_NV / temperature).log_softmax(-1)
    top_NK = logps_NV.topk(min(top, logps_NV.shape[1])).values
    return TokenStatistics(logps_NV.gather(1, targets_N[:, None])[:, 0], -_expectation(logps_NV), top_NK)


class _TokenStatistics(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_TH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        targets_T: Tensor,
        temperature: float,
        top: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = torch.promote_types(hidden_TH.dtype, torch.float32)
        weight_VH = weight_VH.to(hidden_TH.dtype)
        bias_V = None if bias_V is None else bias_V.to(hidden_TH.dtype)
        logprobs_T = torch.empty(len(targets_T), dtype=dtype, device=hidden_TH.device)
        entropies_T = torch.empty_like(logprobs_T)
        top_TK = logprobs_T.new_empty(len(targets_T), min(top, len(weight_VH)))
        likeliest_TK = targets_T.new_empty(top_TK.shape)
        for part in chunks(hidden_TH, len(weight_VH)):
            logps_tV = _logprobs(hidden_TH[part], weight_VH, bias_V, temperature, dtype)
            logprobs_T[part] = logps_tV.gather(1, targets_T[part, None])[:, 0]
            entropies_T[part] = -_expectation(logps_tV)
            if top:
                top_TK[part], likeliest_TK[part] = logps_tV.topk(top_TK.shape[1])
        # log-probabilities are as large as the logits and are recomputed; entropies are [T], and cheap to store
        ctx.save_for_backward(hidden_TH, weight_VH, bias_V, targets_T, entropies_T, likeliest_TK)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logprobs_T, entropies_T, top_TK

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        r"""Compute the gradients chunk by chunk. For a token with target y, logits z and entropy H, they are
        ``d log p_y / dz_v = (v == y) - p_v`` and ``dH / dz_v = -p_v (log p_v + H)``."""
        hidden_TH, weight_VH, bias_V, targets_T, entropies_T, likeliest_TK = ctx.saved_tensors
        grad_logprobs_T, grad_entropies_T, grad_top_TK = grads
        # None for an output that the loss does not use: most losses use no entropy, and testing for 0 would synchronise
        if grad_logprobs_T is None:
            grad_logprobs_T = torch.zeros_like(entropies_T)
        grad_hidden = torch.zeros_like(hidden_TH) if ctx.needs_input_grad[0] else None
        # summed over chunks in float32, since in bfloat16 later chunks would be rounded away
        grad_weight = torch.zeros_like(weight_VH, dtype=entropies_T.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V, dtype=entropies_T.dtype)
        for part in chunks(hidden_TH, len(weight_VH)):
            logps_tV = _logprobs(hidden_TH[part], weight_VH, bias_V, ctx.temperature, entropies_T.dtype)
            probs_tV = logps_tV.exp()
            grad_tV = -grad_logprobs_T[part, None] * probs_tV
            grad_tV.scatter_add_(1, targets_T[part, None], grad_logprobs_T[part, None])
            if grad_top_TK is not None:
                grad_tV -= grad_top_TK[part].sum(1, keepdim=True) * probs_tV
                grad_tV.scatter_add_(1, likeliest_TK[part], grad_top_TK[part])
            if grad_entropies_T is not None:
                surprise_tV = logps_tV.clamp_min_(torch.finfo(logps_tV.dtype).min)  # so that -inf * 0 gives 0
                grad_tV -= grad_entropies_T[part, None] * probs_tV * (surprise_tV + entropies_T[part, None])
            if ctx.temperature != 1.0:
                grad_tV /= ctx.temperature
            if grad_bias is not None:
                grad_bias += grad_tV.sum(0)
            # matmuls in the dtype of the forward pass, as under autocast
            grad_low = grad_tV.to(hidden_TH.dtype)
            if grad_hidden is not None:
                grad_hidden[part] = grad_low @ weight_VH
            if grad_weight is not None:
                add_product(grad_weight, grad_low, hidden_TH[part])
        return grad_hidden, grad_weight, grad_bias, None, None, None


def add_product(total_VH: Tensor, grad_tV: Tensor, hidden_tH: Tensor) -> None:
    """Add ``grad.T @ hidden`` to ``total``, one part of the vocabulary at a time. The full product would need as much
    memory as ``total``.
    """
    size = max(1, most_logits(hidden_tH.device) // hidden_tH.shape[1])
    for start in range(0, len(total_VH), size):
        part = slice(start, start + size)
        total_VH[part] += grad_tV[:, part].T @ hidden_tH


def chunks(hidden_TH: Tensor, vocabulary: int) -> list[slice]:
    """Split the tokens into chunks, so that only one chunk's logits are in memory at once."""
    size = max(1, most_logits(hidden_TH.device) // vocabulary)
    return [slice(start, start + size) for start in range(0, len(hidden_TH), size)]


def _logprobs(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, dtype: torch.dtype) -> Tensor:
    logits = torch.nn.functional.linear(hidden, weight, bias).to(dtype)
    if temperature != 1.0:
        logits = logits / temperature
    return logits.log_softmax(-1)


def _expectation(logps_tV: Tensor) -> Tensor:
    """Return the sum of p log p over the vocabulary. Tokens with p = 0 contribute 0."""
    # a masked logit has log p = -inf and p = 0, whose product would be NaN
    return (logps_tV.exp() * logps_tV.clamp_min(torch.finfo(logps_tV.dtype).min)).sum(-1)
