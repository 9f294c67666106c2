"""The LM head of :mod:`outrider.model.head`, with the computations on logits compiled by ``torch.compile``.

On a GPU, PyTorch's own operations read or write a chunk of float32 logits about two dozen times in a forward and
backward pass. Compiled code reads the chunk only two or three times, and in the dtype of matmuls, such as bfloat16.
Matmuls, chunks and results are the same as in :mod:`outrider.model.head`. Log-probabilities and entropies are at least
float32, and the gradients of weight and bias are summed in at least float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from outrider.errors import UserError
from outrider.model.compute import ComputePath
from outrider.model.head import TokenStatistics, add_product, chunks, token_statistics

_ROWS, _WIDTH, _VOCABULARY = 5, 8, 33
"""Number of tokens, hidden size and vocabulary size of the head that :func:`check_compiled` compares."""
_BOUND = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Largest allowed difference from the uncompiled head, relative to the largest value, by dtype: a few rounding
errors."""


class _Passes(NamedTuple):
    statistics: Callable[..., tuple[Tensor, Tensor]]
    gradient: Callable[..., Tensor]


def compiled_statistics(
    hidden_TH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, targets_T: Tensor, temperature: float = 1.0
) -> TokenStatistics:
    """Return what :func:`outrider.model.head.token_statistics` returns with ``top=0``."""
    args = (hidden_TH, weight_VH, bias_V, targets_T, temperature)
    logprobs_T, entropies_T = _CompiledHead.apply(*args)  # type: ignore[no-untyped-call]
    return TokenStatistics(logprobs_T, entropies_T, logprobs_T.new_empty(len(targets_T), 0))


def with_compiled_head(path: ComputePath, device: torch.device, dtype: torch.dtype) -> ComputePath:
    """Run :func:`check_compiled` on the device used for training, and return ``path`` with the compiled head.

    Raises:
        UserError: the check fails, or ``path.name`` is ``"plain"``: this path uses the model's own head, which is not
            compiled.
    """
    if path.name == "plain":
        raise UserError(f"learn.compile compiles our head, but the model computes on {path}; set it to false")
    check_compiled(device, dtype)
    return path._replace(compiled=True)


def check_compiled(device: torch.device, dtype: torch.dtype) -> None:
    """Compile a small head, and compare its values and gradients with those of :mod:`outrider.model.head`.

    Raises:
        UserError: compilation fails on this machine, or the results differ.
    """
    try:
        found, expected = (_small_head(how, device, dtype) for how in (compiled_statistics, token_statistics))
    except Exception as error:  # for example no compiler, no Triton, or an unsupported GPU
        reason = str(error).strip().split("\n")[0]
        raise UserError(
            f"learn.compile: torch.compile fails on this machine ({reason}); set learn.compile=false"
        ) from (error)
    for name, a, b in zip(("log-probabilities", "entropies", "gradients", "gradients"), found, expected, strict=True):
        gap = float((a - b).abs().max() / b.abs().max())
        if not gap <= _BOUND[dtype]:
            raise UserError(
                f"learn.compile: the compiled head's {name} differ from the head's by {gap:.2g} of the largest, and at "
                f"most {_BOUND[dtype]:g} is allowed; set learn.compile=false"
            )


def _small_head(how: Callable[..., TokenStatistics], device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(_ROWS, _WIDTH, generator=generator).to(device, dtype).requires_grad_()
    weight = torch.randn(_VOCABULARY, _WIDTH, generator=generator).to(device).requires_grad_()
    targets = torch.arange(_ROWS, device=device)
    found = how(hidden, weight, None, targets, 0.7)
    (found.logprobs_T.sum() + (found.entropies_T * (targets + 1)).sum()).backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    return [each.detach().float() for each in (found.logprobs_T, found.entropies_T, hidden.grad, weight.grad)]


@cache
def _compiled() -> _Passes:
    return _Passes(torch.compile(_statistics, dynamic=True), torch.compile(_gradient, dynamic=True))


def _statistics(logits_tV: Tensor, targets_t: Tensor, temperature: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target, and the entropy."""
    scaled_tV = logits_tV.to(dtype) / temperature
    below_tV = scaled_tV - scaled_tV.amax(-1, keepdim=True)
    shares_tV = below_tV.exp()
    total_t = shares_tV.sum(-1)
    # a masked logit is -inf and has share 0, whose product would be NaN
    expected_t = torch.where(shares_tV > 0, shares_tV * below_tV, 0.0).sum(-1) / total_t
    return below_tV.gather(1, targets_t[:, None])[:, 0] - total_t.log(), total_t.log() - expected_t


def _gradient(
    logits_tV: Tensor,
    targets_t: Tensor,
    grad_logprobs_t: Tensor | None,
    grad_entropies_t: Tensor | None,
    entropies_t: Tensor,
    temperature: float,
    low: torch.dtype,
) -> Tensor:
    """Return the gradient with respect to the logits, as ``backward`` in :mod:`outrider.model.head` computes it."""
    logps_tV = (logits_tV.to(entropies_t.dtype) / temperature).log_softmax(-1)
    probs_tV = logps_tV.exp()
    grad_tV = torch.zeros_like(logps_tV)
    if grad_logprobs_t is not None:
        target_tV = torch.arange(logits_tV.shape[1], device=logits_tV.device) == targets_t[:, None]
        grad_tV = (torch.where(target_tV, 1.0, 0.0) - probs_tV) * grad_logprobs_t[:, None]
    if grad_entropies_t is not None:
        surprise_tV = torch.where(probs_tV > 0, logps_tV, 0.0)
        grad_tV = grad_tV - grad_entropies_t[:, None] * probs_tV * (surprise_tV + entropies_t[:, None])
    return (grad_tV / temperature).to(low)


class _CompiledHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, targets_T: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(hidden_TH.dtype, torch.float32)
        weight_VH = weight_VH.to(hidden_TH.dtype)
        bias_V = None if bias_V is None else bias_V.to(hidden_TH.dtype)
        logprobs_T = torch.empty(len(targets_T), dtype=dtype, device=hidden_TH.device)
        entropies_T = torch.empty_like(logprobs_T)
        for part in chunks(hidden_TH, len(weight_VH)):
            logits_tV = linear(hidden_TH[part], weight_VH, bias_V)
            logprobs_T[part], entropies_T[part] = _compiled().statistics(logits_tV, targets_T[part], temperature, dtype)
        ctx.save_for_backward(hidden_TH, weight_VH, bias_V, targets_T, entropies_T)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logprobs_T, entropies_T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden_TH, weight_VH, bias_V, targets_T, entropies_T = ctx.saved_tensors
        grad_hidden = torch.zeros_like(hidden_TH) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight_VH, dtype=entropies_T.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V, dtype=entropies_T.dtype)
        # the gradient of a bias is summed over tokens before it is rounded to the dtype of matmuls
        low = hidden_TH.dtype if bias_V is None else entropies_T.dtype
        for part in chunks(hidden_TH, len(weight_VH)):
            logits_tV = linear(hidden_TH[part], weight_VH, bias_V)
            mine = [None if grad is None else grad[part] for grad in grads]
            grad_tV = _compiled().gradient(logits_tV, targets_T[part], *mine, entropies_T[part], ctx.temperature, low)
            if grad_bias is not None:
                grad_bias += grad_tV.sum(0)
                grad_tV = grad_tV.to(hidden_TH.dtype)
            if grad_hidden is not None:
                grad_hidden[part] = grad_tV @ weight_VH
            if grad_weight is not None:
                add_product(grad_weight, grad_tV, hidden_TH[part])
        return grad_hidden, grad_weight, grad_bias, None, None
