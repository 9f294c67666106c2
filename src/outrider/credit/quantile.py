"""QAE: a quantile of the group's rewards as the baseline, instead of the mean."""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import deviation
from outrider.credit.members import Members


class Quantile(Baseline):
    r"""The advantage is the difference between the reward and a quantile of the group's rewards. It may be divided by
    the group's standard deviation.

    .. math:: A_i = \frac{r_i - b}{\sigma + \epsilon}, \qquad b = \min \{x : \tfrac1n \#\{j : r_j \le x\} \ge K\}

    Here b is the quantile at level K (the option ``share``) of the rewards of the ``n`` valid members (rollouts that
    the verifier could score). :math:`\sigma` is the standard deviation of these rewards around their mean, as in
    :class:`GroupMean`. Advantages are not centred.

    With rewards of 0 and 1, rare successes are reinforced, rare failures are discouraged, and all other advantages are
    0. In a hard group (success rate at most 1 - K) b is 0, so failures get 0 and successes get :math:`1/\sigma`. In an
    easy group b is 1, so successes get 0 and failures get :math:`-1/\sigma`.

    Degenerate cases: if only one member is valid, or all rewards are exactly equal, all members get exactly 0. An
    invalid member gets 0 and does not affect the other members.

    With ``interpolate``, b is interpolated between the two sorted rewards next to index K (n - 1), as in the released
    code. For example, with 8 members, K = 0.4 and five successes, b is then 0.8, and no member gets 0. With 16 members
    and K = 0.4, ``interpolate`` does not change b.

    Source: QAE, arXiv 2509.22611, equations 4 and 5 (taken from third-party notes), and the released code.

    >>> hard = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5))
    >>> easy = Members(np.array([1.0, 1, 1, 0]), np.array([True, True, True, False]), np.full(4, 5))
    >>> [Quantile().advantages(m).round(3).tolist() for m in (hard, easy)]
    [[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -2.0]]
    """

    share: float = Field(
        0.4,
        gt=0,
        lt=1,
        description="level (0 to 1) of the reward quantile that serves as the baseline, such as 0.5 for the median",
    )
    interpolate: bool = Field(
        False,
        description=(
            "whether the quantile may lie between two rewards of the group (linear interpolation); false: the quantile "
            "is always one of the group's rewards"
        ),
    )
    std: bool = Field(True, description="whether to divide advantages by the standard deviation of the group's rewards")
    epsilon: float = Field(
        1e-6,
        ge=0,
        description="small constant added to the standard deviation of the group's rewards, to avoid division by zero",
    )

    def advantages(self, members: Members) -> Floats:
        valid_G = members.valid_G
        rewards, result_G = members.rewards_G[valid_G], np.zeros(members.size)
        if len(rewards) < 2 or (rewards == rewards[0]).all():
            return result_G
        compared = rewards - self._base(rewards)
        result_G[valid_G] = compared / (deviation(rewards) + self.epsilon) if self.std else compared
        return result_G

    def _base(self, rewards: Floats) -> float:
        if self.interpolate:
            return float(np.quantile(rewards, self.share))
        # 0.6 * 5 is a little above 3 in floating point
        return float(np.sort(rewards)[math.ceil(self.share * len(rewards) - 1e-9) - 1])
