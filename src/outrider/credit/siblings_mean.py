"""The siblings' baseline of DEEP-GRPO: a branch is compared with branches from the same branch point."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from outrider.arrays import Floats, Ints
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class SiblingsMean(Baseline):
    r"""The advantage is the reward minus the mean reward of the rollouts that continue the same prefix. With ``std``
    this difference is divided by the standard deviation of those rollouts' rewards.

    .. math:: A_i = r_i - \frac{1}{|F_i|} \sum_{j \in F_i} r_j

    :math:`F_i` is the set of valid members that continue the same parent from the same position, including :math:`i`
    but not the parent. Rollouts that start at the prompt (roots) are compared with each other, so without branches this
    baseline is :class:`GroupMean` without ``std``. Put branches into a separate loss stream (a separately weighted part
    of the loss) when you use this baseline. The total weight of all branches then does not grow with their number.

    Degenerate cases: if :math:`F_i` has only one valid member, or all rewards in :math:`F_i` are equal, its members get
    exactly 0. An invalid member (a rollout that the verifier could not score) gets 0 and does not affect the other
    members. The parent need not be among the members.

    Source: DEEP-GRPO, arXiv 2602.14169, section 3. Our choice: by default the advantage is not divided by the standard
    deviation, as in the released code. The paper divides by the standard deviation, as the option ``std`` does (with
    denominator n-1 and epsilon 1e-6).

    >>> two_pivots = Members(
    ...     np.array([1.0, 0, 0, 1, 1]), np.array([True, False, False, True, True]), np.full(5, 4),
    ...     families_G=np.array([0, 0, 0, 1, 1]),
    ... )
    >>> SiblingsMean().advantages(two_pivots).round(3).tolist()
    [0.667, -0.333, -0.333, 0.0, 0.0]
    """

    std: bool = Field(
        False,
        description=(
            "whether to divide advantages by the standard deviation of rewards among the rollouts that continue the "
            "same prefix"
        ),
    )
    epsilon: float = Field(
        1e-6, ge=0, description="small constant added to the standard deviation of rewards, to avoid division by zero"
    )

    def advantages(self, members: Members) -> Floats:
        return within(members.families_G, members, GroupMean(std=self.std, epsilon=self.epsilon))


def within(labels_G: Ints, members: Members, baseline: Baseline) -> Floats:
    """Return the advantages of a baseline that uses only rewards, computed separately for the members of each label."""
    result_G = np.zeros(members.size)
    for label in dict.fromkeys(labels_G.tolist()):
        chosen_G = labels_G == label
        part = Members(members.rewards_G[chosen_G], members.success_G[chosen_G], members.tokens_G[chosen_G])
        result_G[chosen_G] = baseline.advantages(part)
    return result_G
