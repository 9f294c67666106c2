"""A weighted row is one sequence to train on: a context and a response, with the response tokens' advantages and weight
in the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outrider.record import RAW, Ids, Mode, Rollout


@dataclass(frozen=True, slots=True)
class WeightedRow:
    """One sequence to train on. ``N`` is the number of ``token_ids``.

    Attributes:
        context_ids: the tokens before ``token_ids``, which are never trained on: the prompt and, for a branch, the
            response prefix copied from its parent.
        token_ids: the response, without such a prefix.
        old_logprobs_N: float32, log-probabilities of the sampling policy, under ``mode``.
        advantages_N: float64, the advantage of each token; 0 for tokens without a training signal.
        trainable_N: bool; False for tokens from an environment, such as tool output.
        stream: the part of the loss to which the row belongs, such as ``"main"`` or ``"branch"``. Each stream has its
            own denominator and weight in the loss.
        group: group id; rows of one group are always in the same optimizer batch.
        mode: temperature, ``top_p`` and ``top_k`` of the distribution to which the old log-probabilities refer.
        entropies_N: float32, entropies of the sampling policy in nats; None if the sampler records none.
        seed: the rollout's seed.
        success: whether the verifier accepted the response.
        reward: the rollout's reward; NaN if the verifier failed or the rollout has no reward.
        importance_N: float64, importance weights of the policy term (:mod:`outrider.objective.correction`); None: all
            weights are 1.
        place: index of the row among the rows of its step; set by the learner.

    ``Loss.prepare`` sets the following attributes for a whole optimizer batch. Before that call, a row has no weight.

    Attributes:
        weight: weight of each trainable token in every term of the loss.
        trained: whether any term of the loss has a gradient for this row. The learner skips rows without a gradient.
        keeps_N: bool, False for tokens whose policy gradient is removed; None: no gradient is removed.
        penalties_N: float64, coefficient of the penalty on each token's distance from the sampling policy; None: all
            coefficients are 0.
        pulled: whether the KL penalty toward the reference policy applies to the row.
    """

    context_ids: Ids
    token_ids: Ids
    old_logprobs_N: NDArray[np.float32]
    advantages_N: NDArray[np.float64]
    trainable_N: NDArray[np.bool_]
    stream: str = "main"
    group: str = ""
    mode: Mode = RAW
    entropies_N: NDArray[np.float32] | None = None
    seed: int = 0
    success: bool = False
    reward: float = math.nan
    importance_N: NDArray[np.float64] | None = None
    place: int = -1
    weight: float = 0.0
    trained: bool = False
    keeps_N: NDArray[np.bool_] | None = None
    penalties_N: NDArray[np.float64] | None = None
    pulled: bool = True

    @property
    def length(self) -> int:
        return len(self.context_ids) + len(self.token_ids)

    @property
    def has_signal(self) -> bool:
        return bool((self.advantages_N != 0).any())


Logprobs = Callable[[Sequence[WeightedRow]], list[NDArray[np.floating]]]
"""A function that returns the log-probabilities of the rows' own tokens, as one array per row."""


def row_of(rollout: Rollout, advantages: NDArray[np.float64], prompt_ids: Ids) -> WeightedRow:
    """Return a rollout as a row of training data. ``advantages`` has one value per trainable token.

    ``prompt_ids`` is the prompt that precedes the response in training: the prompt used for sampling, or the problem's
    prompt without added examples or hints. The prefix that a branch copies from its parent is context in this row, but
    other rows may train on the prefix (:mod:`outrider.credit.paths`).

    Raises:
        ValueError: the number of advantages differs from the number of trainable tokens.
    """
    if len(advantages) != rollout.trainable_tokens:
        raise ValueError(f"{len(advantages)} advantages for {rollout.trainable_tokens} trainable tokens")
    trainable_N, advantages_N = rollout.trainable_T, advantages
    if trainable_N is None:
        trainable_N = np.ones(len(advantages), np.bool_)
    else:
        # observed tokens get advantage 0 here, and weight 0 in the objective
        advantages_N = np.zeros(len(trainable_N))
        advantages_N[trainable_N] = advantages
    return WeightedRow(
        context_ids=np.concatenate([prompt_ids, rollout.prefix_ids]) if rollout.branch_at else prompt_ids,
        token_ids=rollout.token_ids,
        old_logprobs_N=rollout.logprobs_T,
        advantages_N=advantages_N,
        trainable_N=trainable_N,
        stream=rollout.stream,
        group=rollout.group_id,
        mode=rollout.mode,
        entropies_N=rollout.entropies_T,
        seed=rollout.seed,
        success=rollout.success,
        reward=math.nan if rollout.reward is None else rollout.reward,
    )


def imitation_row(context_ids: Ids, token_ids: Ids, trainable_N: NDArray[np.bool_] | None = None) -> WeightedRow:
    """Return a row for supervised training, in which trainable tokens have advantage 1, and other tokens (such as tool
    output) have advantage 0."""
    trainable_N = np.ones(len(token_ids), np.bool_) if trainable_N is None else trainable_N
    zeros = np.zeros(len(token_ids), np.float32)
    return WeightedRow(context_ids, token_ids, zeros, trainable_N.astype(np.float64), trainable_N)
