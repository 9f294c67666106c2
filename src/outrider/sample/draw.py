"""Samples one token per row from logits, with one uniform random number per row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from outrider.record import SamplingParams


class Drawn(NamedTuple):
    """The sampled token ``ids`` (int64), their ``logprobs``, and the ``entropies`` of the distributions in nats. All
    have shape ``[B]``."""

    ids: Tensor
    logprobs: Tensor
    entropies: Tensor


def draw(logits_BV: Tensor, uniforms_B: Tensor, params: SamplingParams) -> Drawn:
    """Sample by inverse CDF: choose the first token whose cumulative probability exceeds the uniform number.

    Inverse CDF needs one random number per token, whereas Gumbel sampling would need one per vocabulary entry. Rounding
    changes the token only if a cumulative probability is very close to the uniform number. Temperature 0 selects the
    most likely token. Truncation keeps the ``top_k`` most likely tokens and, of these, the smallest set whose total
    probability is at least ``top_p``. Truncation affects which token is sampled, but neither the token's
    log-probability nor the entropy. A token of probability 0 is never sampled.

    Degenerate case: if a row's logits contain NaN or +inf, the row's log-probability is NaN.

    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> draw(logits, torch.tensor([0.49, 0.51], dtype=torch.float64), SamplingParams()).ids.tolist()
    [0, 1]
    """
    logits_BV = logits_BV.float()
    if params.temperature not in (0.0, 1.0):
        logits_BV = logits_BV / params.temperature
    logps_BV = logits_BV.log_softmax(-1)
    probs_BV = logps_BV.exp()
    entropies_B = -(probs_BV * logps_BV.clamp_min(torch.finfo(logps_BV.dtype).min)).sum(-1)
    if params.temperature == 0.0:
        ids_B = logps_BV.argmax(-1)
    else:
        # float64, so that the cumulative sum over a large vocabulary resolves small probabilities. Truncated
        # probabilities do not sum to 1, so the uniform number is multiplied by their total, with one rounding per row.
        cumulative_BV = truncated(probs_BV, params.top_p, params.top_k).cumsum(-1, dtype=torch.float64)
        total_B1 = cumulative_BV[:, -1:]
        # If the product were rounded up to the total, it would point past the last token of positive probability.
        # right=True finds the first larger entry, which skips tokens of probability 0: they repeat the previous entry
        at_B1 = torch.minimum(uniforms_B[:, None] * total_B1, torch.nextafter(total_B1, torch.zeros_like(total_B1)))
        ids_B = torch.searchsorted(cumulative_BV, at_B1, right=True)[:, 0]
        # NaN points past the last token; any token works here, since its NaN log-probability is rejected later
        ids_B = ids_B.clamp_max(logps_BV.shape[1] - 1)
    return Drawn(ids_B, logps_BV.gather(1, ids_B[:, None])[:, 0], entropies_B)


def truncated(probs_BV: Tensor, top_p: float, top_k: int) -> Tensor:
    """Set probabilities outside top-k and top-p to 0, without renormalising. Among equally likely tokens, those with
    the lowest ids are kept."""
    if top_p >= 1.0 and not 0 < top_k < probs_BV.shape[-1]:
        return probs_BV
    # a stable sort, so that ties are resolved in the same way on every machine
    ordered_BV, order_BV = probs_BV.sort(dim=-1, descending=True, stable=True)
    keep_BV = torch.ones_like(ordered_BV, dtype=torch.bool)
    if top_k > 0:
        keep_BV[:, top_k:] = False
    if top_p < 1.0:
        mass_before_BV = ordered_BV.cumsum(-1, dtype=torch.float64) - ordered_BV
        # the mass *before* a token, so that the first token and the token that crosses top_p are kept
        keep_BV &= mass_before_BV < top_p
    return torch.where(torch.zeros_like(keep_BV).scatter(1, order_BV, keep_BV), probs_BV, 0.0)
