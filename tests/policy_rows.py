"""Rows and learners that the tests of the objective and of the learner share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.learn.processes import Processes
from outrider.model.attention import use_plans
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.record.row import WeightedRow

STREAMS = {"main": 1.0, "branch": 0.5}


def row(
    advantages: Sequence[float],
    logprobs: Sequence[float] | None = None,
    entropies: Sequence[float] | None = None,
    trainable: Sequence[bool] | None = None,
    group: str = "g",
    stream: str = "main",
    seed: int = 0,
) -> WeightedRow:
    """A row of given numbers, one per own token."""
    own = len(advantages)
    return WeightedRow(
        context_ids=np.array([1], np.int32),
        token_ids=np.full(own, 5, np.int32),
        old_logprobs_N=np.array(logprobs if logprobs is not None else np.full(own, -1.0), np.float32),
        advantages_N=np.array(advantages, np.float64),
        trainable_N=np.array(trainable if trainable is not None else np.ones(own), np.bool_),
        stream=stream,
        group=group,
        entropies_N=None if entropies is None else np.array(entropies, np.float32),
        seed=seed,
    )


def ragged_rows(n: int = 12, seed: int = 0, groups: int = 4) -> list[WeightedRow]:
    """Random rows; one in three has no advantage, some tokens are observed."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        own = int(rng.integers(1, 12))
        trainable = rng.random(own) > 0.15
        made.append(
            WeightedRow(
                rng.integers(3, 32, int(rng.integers(1, 9))).astype(np.int32),
                rng.integers(3, 32, own).astype(np.int32),
                rng.normal(-2, 0.5, own).astype(np.float32),
                np.where(trainable, rng.normal(), 0.0) if i % 3 else np.zeros(own),
                trainable,
                "branch" if i % 4 == 1 else "main",
                f"g{i % groups}",
                entropies_N=rng.exponential(1.0, own).astype(np.float32),
                seed=int(rng.integers(2**62)),
            )
        )
    return made


def learner(
    model: PreTrainedModel,
    objective: dict[str, object] | None = None,
    ranks: Processes | None = None,
    **options: object,
) -> LocalLearner:
    """A learner that takes ``model`` over, as one of so many ranks with this sum; gradients are not clipped."""
    use_plans(model)
    described = {"streams": STREAMS, "surrogate": {"clip": [0.2, 0.28]}, **(objective or {})}
    return LocalLearner(
        model,
        LearnOptions(**{"lr": 1e-2, "clip_norm": 1e6, **options}),
        PolicyLoss(ObjectiveOptions(**described), 16),
        ranks,
    )


def gradient(
    model: PreTrainedModel, batch: list[WeightedRow], objective: dict[str, object], **options: object
) -> Tensor:
    """The gradient of one optimizer batch."""
    made = learner(copy.deepcopy(model), objective, **options)
    made.update(batch)
    return torch.cat([p.grad.reshape(-1) for p in made.parameters])


def evaluate(
    objective: dict[str, object],
    logprobs: NDArray[np.float64] | Tensor,
    rows: Sequence[WeightedRow],
    entropies: Tensor | None = None,
    reference: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and diagnostics of ``rows`` as one optimizer batch and one micro-batch, each trainable token of weight 1."""
    loss = PolicyLoss(ObjectiveOptions(**objective), 16)
    logprobs_N = torch.as_tensor(logprobs, dtype=torch.float64)
    told = [replace(row, weight=1.0) for row in loss.prepare(rows)]
    entropies_N = torch.ones_like(logprobs_N) if entropies is None else entropies
    return loss(TokenBatch.of(told, logprobs_N.detach()), logprobs_N, entropies_N, reference)


def one_row(old_logprobs: Tensor, advantages: Tensor) -> TokenBatch:
    """One row of trainable tokens of weight 1."""
    return TokenBatch(old_logprobs, advantages, torch.ones_like(advantages), [len(advantages)])
