"""Attention between the steps of one response, measured in a forward pass of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from outrider.record import Rollout


@torch.no_grad()
def step_attention(model: PreTrainedModel, rollout: Rollout, starts: Sequence[int]) -> NDArray[np.float64]:
    r"""Mean attention between steps: ``[layers * heads, S, S]``, row a query step, column a key step.

    .. math:: M_{h,ij} = \frac{1}{|i|\,|j|} \sum_{q \in i} \sum_{k \in j} a_{h,qk}

    over the causal softmax weights of the model, the prompt included in the softmax and in no step. One query step at
    a time, so memory is that of one step's rows. The model's attention must be routed through plans.
    """
    prompt = len(rollout.prompt_ids)
    bounds = [prompt + int(start) for start in starts] + [prompt + len(rollout.response_ids)]
    plan = _StepMeans(bounds)
    ids = np.concatenate([rollout.prompt_ids, rollout.response_ids]).astype(np.int64)
    ids_T = torch.from_numpy(ids).to(model.device)[None]
    positions_T = torch.arange(len(ids), device=model.device)[None]
    model.get_decoder()(input_ids=ids_T, position_ids=positions_T, plan=plan, use_cache=False)
    return torch.cat(plan.means).cpu().numpy()


class _StepMeans:
    """An attention plan that notes the mean weight of every pair of steps on its way."""

    def __init__(self, bounds: list[int]) -> None:
        self._bounds = bounds
        self.means: list[Tensor] = []

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        groups = q.shape[1] // k.shape[1]
        k, v = k[0].repeat_interleave(groups, 0), v[0].repeat_interleave(groups, 0)
        at = torch.arange(q.shape[2], device=q.device)
        edges = [0, *self._bounds]
        outs, rows = [], []
        for start, end in pairwise(edges):  # the prompt, then step by step
            gap = at[start:end, None] - at
            hidden = (gap < 0) if window is None else (gap < 0) | (gap >= window)
            scores = (q[0, :, start:end] @ k.transpose(1, 2)).float() * scale
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            outs.append(weights.to(v.dtype) @ v)
            rows.append(weights.mean(1).double())
        row_HST = torch.stack(rows[1:], 1)
        self.means.append(torch.stack([row_HST[:, :, a:b].mean(-1) for a, b in pairwise(self._bounds)], -1))
        return torch.cat(outs, 1).transpose(0, 1)[None]
