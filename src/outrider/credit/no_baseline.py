"""No baseline: the reward itself, as in plain REINFORCE."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members


class NoBaseline(Baseline):
    r"""The reward as the advantage.

    .. math:: A_i = r_i

    The mean of :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the gradient of the expected reward, with
    larger variance than with a baseline. The absolute level of the rewards matters: rewards of 0 and 1 reinforce
    successes and ignore failures, while rewards of -1 and 1 also discourage failures. A constant added to all rewards
    gives a different estimator with the same expectation.

    Degenerate cases: a member (rollout) that the verifier could not score gets 0. **Unlike in baselines that compare
    members**, a single valid member, and members with equal rewards, keep their reward. This is the purpose of this
    baseline: even a group with only failures has a gradient, if failures have a reward other than 0.

    Source: Williams 1992, "Simple statistical gradient-following algorithms"; also the estimator of arXiv 2506.01347.

    >>> m = Members(np.array([1.0, -1.0, np.nan]), np.array([True, False, False]), np.array([5, 5, 5]))
    >>> NoBaseline().advantages(m).tolist()
    [1.0, -1.0, 0.0]
    """

    def advantages(self, members: Members) -> Floats:
        return np.where(members.valid_G, members.rewards_G, 0.0).astype(np.float64)
