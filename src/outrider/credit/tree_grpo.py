"""The baseline of Tree-GRPO: z-scores within the group and within the tree."""

from __future__ import annotations

from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.forest import trees
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members
from outrider.credit.siblings_mean import within


class TreeGrpo(Baseline):
    r"""The advantage is the sum of two z-scores of the reward: among all members of the group, and within the member's
    tree.

    .. math:: A_i = z_i(\text{group}) + z_i(\text{tree}), \qquad z_i(M) = \frac{r_i - \mu_M}{\sigma_M + \epsilon}

    Means and standard deviations are over the valid members of each set. Standard deviations have the denominator n-1.
    A tree is a root with all its descendants; a member whose parent is not among the members is a root.

    Degenerate cases, for each of the two terms: a single valid member (a rollout that the verifier could score) gets 0,
    and equal rewards give exactly 0. An invalid member gets 0 and does not affect the other members. If there are no
    branches, this baseline therefore equals :class:`GroupMean`.

    In the paper, a rollout's advantage applies to all its tokens, including those that it shares with other rollouts
    (``objective.prefix: repeat``).

    Source: Tree-GRPO, arXiv 2509.21240. Deviation: the released code gives a tree of one member its raw reward as the
    second term. This baseline uses 0, since there is no other member to compare with.

    >>> import numpy as np
    >>> two_trees = Members(
    ...     np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5),
    ...     parents_G=np.array([-1, 0, -1, 2]), starts_G=np.array([0, 2, 0, 2]),
    ... )
    >>> TreeGrpo().advantages(two_trees).round(3).tolist()
    [2.207, -1.207, -0.5, -0.5]
    """

    epsilon: float = Field(
        1e-6,
        ge=0,
        description=(
            "small constant added to the standard deviations of rewards in the group and in each tree, to avoid "
            "division by zero"
        ),
    )

    def advantages(self, members: Members) -> Floats:
        z_score = GroupMean(epsilon=self.epsilon)
        return z_score.advantages(members) + within(trees(members.parents_G), members, z_score)
