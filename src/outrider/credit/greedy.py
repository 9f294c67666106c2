"""The baseline of ReMax: the reward of the greedy response to the same problem."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members


class GreedyBaseline(Baseline):
    r"""The advantage is the reward minus the reward of the greedy response to the same problem.

    .. math:: A_i = r_i - r(\hat y), \qquad \hat y_t = \arg\max_v \pi(v \mid x, \hat y_{<t})

    This formula applies to sampled members (rollouts) that the verifier could score. Greedy members (``greedy_G``) get
    0. The stage ``greedy`` generates one greedy response per problem; if a group has several greedy responses, the
    baseline is their mean reward. The baseline does not depend on sampled responses, so the mean over members of
    :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the gradient of the expected reward for any number of
    members, even one.

    Degenerate cases: if a group has no scored greedy response, all members get 0. (A recipe without the stage
    ``greedy`` is rejected.) A reward equal to the greedy reward gives an advantage of exactly 0. A group whose rewards
    are all equal but differ from the greedy reward has non-zero advantages, even with one member. A member that the
    verifier could not score gets 0 and does not affect the other members.

    Source: ReMax, Li et al. 2023, arXiv 2310.10505, algorithm 1. ReMax's KL penalty in the reward is not included; use
    the objective's KL term instead.

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
        # relative to the first reward, so that the mean of equal rewards is exact
        mean = rewards[0] + (rewards - rewards[0]).mean()
        gains_G = members.rewards_G - mean
        return np.where(members.valid_G & ~members.greedy_G, gains_G, 0.0)
