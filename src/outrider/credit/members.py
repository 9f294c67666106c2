"""What credit is computed from: the members of one group as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from outrider.record import Group, Rollout

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Members:
    """The rollouts of one group, as arrays over its ``G`` members. Ragged: every member has its own length.

    Only trainable tokens count: those a member sampled itself. Observed tokens (tool output) and a branch's prefix
    are left out of every array.

    Attributes:
        rewards_G: float64; NaN is *unscorable* (the verifier failed).
        success_G: bool; the verdict, whatever the reward says.
        tokens_G: int64; trainable tokens of each member, may be 0.
        logprobs_GT, entropies_GT: float64 per trainable token of each member; empty arrays where not recorded.
    """

    rewards_G: Floats
    success_G: NDArray[np.bool_]
    tokens_G: NDArray[np.int64]
    logprobs_GT: Sequence[Floats] = field(default_factory=tuple)
    entropies_GT: Sequence[Floats] = field(default_factory=tuple)

    @property
    def size(self) -> int:
        return len(self.rewards_G)

    @property
    def valid_G(self) -> NDArray[np.bool_]:
        """The members that count in a baseline: scorable, and with at least one token to train.

        A member outside contributes to no statistic, gets advantage 0 and changes no sibling.
        """
        return np.isfinite(self.rewards_G) & (self.tokens_G > 0)

    @staticmethod
    def of(rollouts: Sequence[Rollout]) -> Members:
        return Members(
            rewards_G=np.array([np.nan if r.reward is None else r.reward for r in rollouts], dtype=np.float64),
            success_G=np.array([r.success for r in rollouts], dtype=np.bool_),
            tokens_G=np.array([r.trainable_tokens for r in rollouts], dtype=np.int64),
            logprobs_GT=[_trainable(r, r.logprobs_T) for r in rollouts],
            entropies_GT=[_trainable(r, r.entropies_T) for r in rollouts],
        )


def members_by_stream(group: Group) -> dict[str, list[Rollout]]:
    """The rollouts of a group split by loss stream, in member order."""
    streams: dict[str, list[Rollout]] = {}
    for rollout in group.rollouts:
        streams.setdefault(rollout.stream, []).append(rollout)
    return streams


def _trainable(rollout: Rollout, values_T: NDArray[np.float32] | None) -> Floats:
    if values_T is None:
        return np.zeros(0)
    chosen = values_T if rollout.trainable_T is None else values_T[rollout.trainable_T]
    return chosen.astype(np.float64)
