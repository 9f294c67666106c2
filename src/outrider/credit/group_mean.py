"""The group-mean baseline of GRPO and Dr. GRPO."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members


class GroupMean(Baseline):
    r"""The advantage is the difference between the reward and the group mean, by default divided by the group's
    standard deviation.

    .. math:: A_i = \frac{r_i - \mu}{\sigma + \epsilon}, \qquad
              \mu = \tfrac1n \sum_j r_j, \quad \sigma^2 = \tfrac{1}{n-1} \sum_j (r_j - \mu)^2

    Here :math:`\mu` and :math:`\sigma` are the mean and the standard deviation of the rewards of the ``n`` valid
    members (rollouts that the verifier could score). Without ``std`` the denominator is 1, as in Dr. GRPO. The mean is
    computed in two passes, in float64.

    Degenerate cases, as in most baselines: an invalid member gets 0 and does not affect the other members. A single
    valid member gets 0. If all valid rewards are exactly equal, all members get exactly 0 (not a rounding error divided
    by epsilon).

    Dividing by the standard deviation gives groups with rare successes (or rare failures) more weight. With rewards of
    0 and 1 the division multiplies advantages by a factor between about 2 (half of the group succeeds) and ``sqrt(n)``
    (one member differs).

    ``per_conditioning`` compares members with solved examples in the prompt only with each other, and members with a
    plain prompt only with each other. With a joint mean, a failure from the plain prompt would be penalised for not
    having seen the examples.

    Sources: GRPO, Shao et al. 2024, arXiv 2402.03300; Dr. GRPO, Liu et al. 2025, arXiv 2503.20783. The denominator n-1
    in :math:`\sigma^2` and epsilon = 1e-6 follow verl's released estimator.

    >>> m = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5))
    >>> GroupMean(std=False).advantages(m).tolist()
    [0.75, -0.25, -0.25, -0.25]
    >>> GroupMean().advantages(m).round(3).tolist()
    [1.5, -0.5, -0.5, -0.5]
    """

    std: bool = Field(True, description="whether to divide advantages by the standard deviation of the group's rewards")
    epsilon: float = Field(
        1e-6,
        ge=0,
        description="small constant added to the standard deviation of the group's rewards, to avoid division by zero",
    )
    per_conditioning: bool = Field(
        False,
        description=(
            "whether to compute the group's mean reward separately for rollouts from plain prompts and for rollouts "
            "from prompts with examples or hints"
        ),
    )

    def advantages(self, members: Members) -> Floats:
        result_G = np.zeros(members.size)
        pools = [members.valid_G]
        if self.per_conditioning:
            pools = [members.valid_G & members.seeded_G, members.valid_G & ~members.seeded_G]
        for pool_G in pools:
            result_G[pool_G] = self._compared(members.rewards_G[pool_G])
        return result_G

    def _compared(self, rewards: Floats) -> Floats:
        if len(rewards) < 2 or (rewards == rewards[0]).all():
            return np.zeros(len(rewards))
        centred: Floats = rewards - rewards.mean()
        centred -= centred.mean()  # second pass: removes the rounding error of the mean
        return centred / (deviation(rewards) + self.epsilon) if self.std else centred


def deviation(rewards: Floats) -> float:
    """Return the sample standard deviation (denominator ``n - 1``) of at least two rewards, computed in two passes."""
    centred = rewards - rewards.mean()
    centred -= centred.mean()  # second pass: removes the rounding error of the mean
    return float(np.sqrt((centred**2).sum() / (len(rewards) - 1)))
