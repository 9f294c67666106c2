"""Kimi k1.5's length reward: shorter responses within a group get a higher reward."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import RewardShaper
from outrider.credit.members import Members
from outrider.credit.overlong import path_lengths


class Brevity(RewardShaper):
    r"""Adds a length reward that compares each response with the group's shortest and longest; failures get only
    penalties.

    .. math:: r_i' = r_i + \lambda \begin{cases} \ell_i & \text{if member } i \text{ succeeds} \\ \min(0, \ell_i) &
              \text{otherwise} \end{cases} \qquad
              \ell_i = \frac12 - \frac{L_i - L_{(1)}}{L_{(n)} - L_{(1)}} \in [-\tfrac12, \tfrac12]

    where :math:`L_{(1)}` and :math:`L_{(n)}` are the minimum and maximum length among the valid members. A response's
    length is its number of trainable tokens. If the response continues a prefix of another rollout, the prefix's
    trainable tokens count too.

    Degenerate cases: rewards do not change if all lengths are equal or the group has only one valid member. Invalid
    members (rollouts that the verifier could not score) keep their reward, even if it is NaN, and are ignored when the
    minimum and maximum lengths are computed. A group of failures of different lengths gets a gradient towards shorter
    responses.

    Source: Kimi k1.5, arXiv 2501.12599, section 2.3.3. The paper does not state the weight of this reward, and adds the
    reward only after an initial training phase.

    >>> m = Members(np.array([1.0, 1.0, 0.0]), np.array([True, True, False]), np.array([10, 30, 20]))
    >>> Brevity().rewards(m, step=1).tolist()
    [1.5, 0.5, 0.0]
    """

    weight: float = Field(
        1.0,
        ge=0,
        description="difference in reward between the group's shortest and longest responses if both are successes",
    )

    def rewards(self, members: Members, step: int) -> Floats:
        valid_G, lengths_G = members.valid_G, path_lengths(members)
        if not valid_G.any() or (spread := np.ptp(lengths_G[valid_G])) == 0:
            return members.rewards_G.astype(np.float64)
        shortness_G = 0.5 - (lengths_G - lengths_G[valid_G].min()) / spread
        added_G = self.weight * np.where(members.success_G, shortness_G, np.minimum(shortness_G, 0.0))
        return np.where(valid_G, members.rewards_G + added_G, members.rewards_G)
