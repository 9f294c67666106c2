"""Measures the attention between the steps of one response, in a separate forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from outrider.record import Rollout

_ROWS = 256  # queries per block; with 8,000 tokens and 16 heads, 130 MB of attention weights


@torch.no_grad()
def step_attention(model: PreTrainedModel, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
    r"""Return the mean attention between steps: ``[layers * heads, S, S]``, with query steps as rows.

    .. math:: M_{h,ij} = \frac{1}{|i|\,|j|} \sum_{q \in i} \sum_{k \in j} a_{h,qk}

    with the model's causal softmax weights :math:`a`. The softmax covers the prompt as well, although no step contains
    the prompt. Queries are processed in blocks, so at most ``_ROWS`` rows of attention weights are in memory at a time.
    The model must be prepared with :func:`outrider.model.attention.use_plans`.
    """
    prompt, response = len(rollout.prompt_ids), len(rollout.response_ids)
    bounds = [int(start) for start in starts] + [response]
    shares_TS = torch.zeros(prompt + response, len(starts), device=model.device)
    for step, (start, end) in enumerate(pairwise(bounds)):
        shares_TS[prompt + start : prompt + end, step] = 1 / (end - start)
    plan = _StepMeans(shares_TS)
    ids = np.concatenate([rollout.prompt_ids, rollout.response_ids]).astype(np.int64)
    ids_T = torch.from_numpy(ids).to(model.device)[None]
    positions_T = torch.arange(len(ids), device=model.device)[None]
    model.get_decoder()(input_ids=ids_T, position_ids=positions_T, plan=plan, use_cache=False)
    return torch.cat(plan.means).cpu().numpy()


class _StepMeans:
    """Computes attention in a forward pass, and records the mean attention weight between every two steps.

    Args:
        shares_TS: the weight with which each token enters each step's mean. The weight is 1 / (length of the step) for
            tokens of the step, and 0 for all other tokens.
    """

    def __init__(self, shares_TS: Tensor) -> None:
        self._shares_TS = shares_TS
        self.means: list[Tensor] = []

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        groups = q.shape[1] // k.shape[1]
        k, v = k[0].repeat_interleave(groups, 0), v[0].repeat_interleave(groups, 0)
        at = torch.arange(q.shape[2], device=q.device)
        outs, means_HSS = [], torch.zeros((), dtype=torch.float64, device=q.device)
        for queries in at.split(_ROWS):
            gap = queries[:, None] - at
            hidden = (gap < 0) if window is None else (gap < 0) | (gap >= window)
            scores = (q[0, :, queries] @ k.transpose(1, 2)).float() * scale
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            outs.append(weights.to(v.dtype) @ v)
            # summed over blocks in float64, since a pair of long steps spans many blocks
            means_HSS = means_HSS + (self._shares_TS[queries].T @ (weights @ self._shares_TS)).double()
        self.means.append(means_HSS)
        return torch.cat(outs, 1).transpose(0, 1)[None]
