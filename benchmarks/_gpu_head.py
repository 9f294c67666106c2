"""The head of one micro-batch, for ``gpu.py``: as it is, with its passes over logits compiled, and its products alone.

What ``learn.compile`` saves is what the first two differ by; with chunks of the same size none that keeps no logits can
be faster than the third. ``difference``: of log-probabilities, entropies and the gradients of hidden states and weight,
the largest between the first two relative to the largest value. The gradients are rounded to bfloat16 after other
operations in float32.
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
from outrider.model.compiled_head import compiled_statistics
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
    statistics = {"ours": lambda *rows: kept.token_statistics(rows[0], rows[1], None, rows[2])[:2]}
    if gpu:  # on a CPU compiling takes half a minute
        statistics["compiled"] = lambda *rows: compiled_statistics(rows[0], rows[1], None, rows[2])[:2]
    chosen = statistics.get(how, statistics["ours"])
    result = timed(lambda: sum(learned(rows, chosen, found) for _ in range(TIMES)))
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
    for part in kept.chunks(hidden, len(weight)):
        linear(hidden[part], low)
        logits = linear(hidden[part], low)
        logits @ low
        kept.add_product(total, logits, hidden[part])
    return len(hidden)
