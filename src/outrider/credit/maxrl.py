"""The baseline of MaxRL: advantages are divided by the group's success rate."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class MaxRL(Baseline):
    r"""The advantage is the difference between the reward and the group mean, divided by the group's success rate.

    .. math:: A_i = \frac{r_i - \mu}{\hat p}, \qquad \hat p = \frac{c}{n}

    The group has ``n`` valid members (rollouts that the verifier could score), and ``c`` of them are successes. With
    rewards of 0 and 1 this is the published :math:`(r_i - \hat p) / \hat p`: a success gets :math:`1/\hat p - 1`, and a
    failure gets -1.

    With rewards of 0 and 1 the objective is the log-likelihood of success. Its gradient is :math:`\nabla \log p =
    \sum_{k \ge 1} \frac1k \nabla \mathrm{pass@}k`; the expected reward has only the first term. The mean over members
    of :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the first n-1 terms. The estimator in section 3 of
    the paper estimates the first n terms. In a group without a success, the paper's estimator therefore subtracts the
    mean of :math:`\nabla \log \pi(y_i)`, which makes all responses of the group less likely. The released code and this
    baseline instead give advantages of 0 to a group without a success.

    Degenerate cases: all members get exactly 0 if no member succeeds, only one member is valid, or all rewards are
    exactly equal. An invalid member gets 0 and does not affect the other members.

    Our choice: :math:`\hat p` is computed from verdicts, and the numerator is computed from rewards. The released code
    divides by the mean reward plus 1e-6. For rewards of 0 and 1 the mean reward equals :math:`\hat p`, but for rewards
    of -1 and 1 it may be 0 or negative. With :math:`\hat p` from verdicts, adding a constant to all rewards changes
    nothing, scaling rewards scales advantages, and reward shapers still have an effect.

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
