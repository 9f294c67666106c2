"""The baseline of MaxRL: advantages are divided by the group's success rate."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class MaxRL(Baseline):
    r"""Reward minus the group mean, divided by the group's success rate.

    .. math:: A_i = \frac{r_i - \mu}{\hat p}, \qquad \hat p = \frac{c}{n}

    over the ``n`` valid members, ``c`` of which are successes. With rewards of 0 and 1 this is the published
    :math:`(r_i - \hat p) / \hat p`: a success gets :math:`1/\hat p - 1`, a failure -1.

    The objective, with rewards of 0 and 1, is the log-likelihood of success, which expands into :math:`\nabla \log p =
    \sum_{k \ge 1} \frac1k \nabla \mathrm{pass@}k`, of which the expected reward keeps only the first term. The mean
    over members of :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the first n-1 terms. (Section 3 counts n
    terms: its estimator also subtracts the mean score of a group without success, which makes failures less likely
    without a known alternative. The released code gives such a group 0, and so does this one.)

    Degenerate cases: with no success, one valid member, or exactly equal rewards, all get exactly 0. An invalid member
    gets 0 and does not affect siblings.

    Decided: :math:`\hat p` is computed from verdicts, the numerator from rewards. The released code divides by the mean
    reward plus 1e-6, which agrees for rewards of 0 and 1, but for -1 and 1 may divide by 0. Here a constant added to
    all rewards changes nothing, a factor scales the advantage, and reward shapers have an effect.

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
