"""The baseline of ReMax: what the greedy response to the same problem earned."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members


class GreedyBaseline(Baseline):
    r"""Reward minus the reward of the greedy response.

    .. math:: A_i = r_i - r(\hat y), \qquad \hat y_t = \arg\max_v \pi(v \mid x, \hat y_{<t})

    for the valid members that were sampled; ``greedy_G`` marks the others, which get 0. The stage ``greedy`` draws one
    for each problem; of several the mean counts. What is subtracted depends on no sampled response, so the mean over
    members of :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the gradient of the expected reward for any
    number of members, one included.

    Degenerate cases: a group without a valid greedy member has no baseline, and all get 0 (a recipe without the stage
    is refused). Rewards equal to the greedy one give exactly 0, while a group whose rewards are all equal and differ
    from it is told so: here one member has something to compare with. A member that is not valid gets 0 and changes no
    other.

    Source: ReMax, Li et al. 2023, arXiv 2310.10505, algorithm 1. Not here: its KL inside the reward, which is the
    objective's.

    >>> m = Members(
    ...     np.array([1.0, 0.0, 1.0]), np.array([True, False, True]), np.array([4, 6, 5]),
    ...     greedy_G=np.array([False, False, True]),
    ... )
    >>> GreedyBaseline().advantages(m).tolist()
    [0.0, -1.0, 0.0]
    """

    needs_stage: ClassVar[str] = "greedy"

    def advantages(self, members: Members) -> Floats:
        greedy_G = members.greedy_G & members.valid_G
        if not greedy_G.any():
            return np.zeros(members.size)
        rewards = members.rewards_G[greedy_G]
        # from the first one on: exact where all are equal, where a rounded mean would leave a residue
        mean = rewards[0] + (rewards - rewards[0]).mean()
        gains_G = members.rewards_G - mean
        return np.where(members.valid_G & ~members.greedy_G, gains_G, 0.0)
