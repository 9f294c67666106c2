"""The head of one micro-batch, for ``gpu.py``: as it is, with its passes over logits compiled, and its products alone.

What compiling would save is what the first two differ by; with chunks of the same size none that keeps no logits can
be faster than the third. A compiled pass reads a chunk of bfloat16 logits twice or thrice where PyTorch's own
operations pass over float32 ones a dozen times. Log-probabilities, entropies and gradients, without a temperature, are
those of :mod:`outrider.model.head`, as ``difference`` shows: the largest relative to the largest value, of each of the
two and of the gradients of hidden states and weight, which are rounded to bfloat16 after other operations in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _gpu_measure import timed
from _gpu_model import Size
from torch import Tensor
from torch.nn.functional import linear

from outrider.model import head as kept
from outrider.model.device import placement

Rows = tuple[Tensor, Tensor, Tensor, Tensor]
TIMES = 100
"""Runs that are timed together: one of the small model would be less than the clock's last digit."""


def head(size: Size, folder: Path, how: str) -> dict[str, Any]:
    """Log-probabilities, entropies and gradients of the response tokens of one micro-batch, forward and backward."""
    device = placement().device
    gpu = device.type == "cuda"
    torch.manual_seed(0)
    tokens = size.micro_batch * size.response
    hidden = torch.randn(tokens, size.width, device=device, dtype=torch.bfloat16 if gpu else None)
    weight = torch.randn(size.vocabulary, size.width, device=device) * 0.05
    targets, grads = torch.randint(size.vocabulary, (tokens,), device=device), torch.randn(tokens, device=device)
    rows = (hidden.requires_grad_(), weight.requires_grad_(), targets, grads)
    if how == "products":
        return timed(lambda: sum(products(rows) for _ in range(TIMES)))
    found: list[Tensor] = []
    _Tried.parts = torch.compile(parts, dynamic=True) if gpu else parts  # on a CPU compiling takes half a minute
    _Tried.gradient = torch.compile(gradient, dynamic=True) if gpu else gradient
    statistics = {"ours": lambda *rows: kept.token_statistics(rows[0], rows[1], None, rows[2])[:2]}
    statistics["compiled"] = _Tried.apply
    result = timed(lambda: sum(learned(rows, statistics[how], found) for _ in range(TIMES)))
    if how == "compiled":
        tried = list(found)
        learned(rows, statistics["ours"], found)
        result["difference"] = [difference(a, b) for a, b in zip(tried, found, strict=True)]
    return result


def learned(rows: Rows, statistics: Callable[..., Any], found: list[Tensor]) -> int:
    hidden, weight, targets, grads = rows
    hidden.grad = weight.grad = None
    logprobs, entropies = statistics(hidden, weight, targets)
    logprobs.backward(grads)
    assert hidden.grad is not None
    assert weight.grad is not None
    found[:] = [logprobs.detach(), entropies.detach(), hidden.grad, weight.grad]
    return len(targets)


def difference(a: Tensor, b: Tensor) -> float:
    return float((a.float() - b.float()).abs().max() / b.float().abs().max())


def products(rows: Rows) -> int:
    """The four of each chunk: logits twice, and the gradients of hidden states and weight."""
    hidden, weight = rows[0].detach(), rows[1].detach()
    low, total = weight.to(hidden.dtype), torch.zeros_like(weight)
    for part in kept._chunks(hidden, len(weight)):
        linear(hidden[part], low)
        logits = linear(hidden[part], low)
        logits @ low
        kept._add_product(total, logits, hidden[part])
    return len(hidden)


def parts(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each target, and the entropy."""
    below = logits.float() - logits.float().amax(-1, keepdim=True)
    shares = below.exp()
    total = shares.sum(-1)
    expected = torch.where(shares > 0, shares * below, 0.0).sum(-1) / total
    return below.gather(1, targets[:, None])[:, 0] - total.log(), total.log() - expected


def gradient(logits: Tensor, targets: Tensor, grads: Tensor) -> Tensor:
    """Of log-probabilities, in logits."""
    drawn = torch.arange(logits.shape[1], device=logits.device)[None] == targets[:, None]
    return ((torch.where(drawn, 1.0, 0.0) - torch.softmax(logits.float(), -1)) * grads[:, None]).to(logits.dtype)


class _Tried(torch.autograd.Function):
    parts: Callable[..., tuple[Tensor, Tensor]] = staticmethod(parts)
    gradient: Callable[..., Tensor] = staticmethod(gradient)

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        low = weight.to(hidden.dtype)
        logprobs = torch.empty(len(targets), device=hidden.device)
        entropies = torch.empty_like(logprobs)
        for part in kept._chunks(hidden, len(weight)):
            logprobs[part], entropies[part] = _Tried.parts(linear(hidden[part], low), targets[part])
        ctx.save_for_backward(hidden, low, targets)
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, grads: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, low, targets = ctx.saved_tensors
        grad_hidden, grad_weight = torch.zeros_like(hidden), torch.zeros_like(low, dtype=torch.float32)
        for part in kept._chunks(hidden, len(low)):
            grad_logits = _Tried.gradient(linear(hidden[part], low), targets[part], grads[part])
            grad_hidden[part] = grad_logits @ low
            kept._add_product(grad_weight, grad_logits, hidden[part])
        return grad_hidden, grad_weight, None
