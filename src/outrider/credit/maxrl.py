"""The baseline of MaxRL: what is rarely solved counts by how rarely."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class MaxRL(Baseline):
    r"""Reward minus the mean of the group, over the share of it that succeeds.

    .. math:: A_i = \frac{r_i - \mu}{\hat p}, \qquad \hat p = \frac{c}{n}

    over the ``n`` valid members, ``c`` of which are successes. With rewards of 0 and 1 this is the published
    :math:`(r_i - \hat p) / \hat p`: a success gets :math:`1/\hat p - 1`, a failure -1.

    What it follows, with rewards of 0 and 1: the log-likelihood of success expands into
    :math:`\nabla \log p = \sum_{k \ge 1} \frac1k \nabla \mathrm{pass@}k`, of which the expected reward keeps the first
    term. The mean over members of :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the first n-1 terms.
    (Section 3 counts n: its estimator subtracts the mean score of a group without success as well, which teaches
    failures to be unlikely though nothing better is known. The released code gives such a group 0, and so does this.)

    Degenerate cases: no success, one valid member, or exactly equal rewards: all exactly 0. A member that is not valid
    gets 0 and changes no sibling.

    Decided: :math:`\hat p` is the share of verdicts, the numerator has rewards. The released code divides by the mean
    reward plus 1e-6, which is the same for 0 and 1, and for -1 and 1 would divide by nothing. So a constant added to
    all rewards changes nothing, a factor scales the advantage, and a reward shaper counts.

    Source: MaxRL, Tajwar et al. 2026, arXiv 2602.02710, and its released code.

    >>> m = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5))
    >>> MaxRL().advantages(m).tolist()
    [3.0, -1.0, -1.0, -1.0]
    """

    def advantages(self, members: Members) -> Floats:
        successes = int((members.success_G & members.valid_G).sum())
        if not successes:
            return np.zeros(members.size)
        return GroupMean(std=False).advantages(members) * (int(members.valid_G.sum()) / successes)
