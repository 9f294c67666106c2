"""The leave-one-out baseline of RLOO."""

from __future__ import annotations

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class LeaveOneOut(Baseline):
    r"""Reward minus the mean of the others.

    .. math:: A_i = r_i - \frac{1}{n-1} \sum_{j \ne i} r_j = \frac{n}{n-1} (r_i - \mu)

    over the ``n`` valid members. What is subtracted does not depend on the response itself, so the mean over members of
    :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the gradient of the expected reward, where
    :class:`GroupMean` without std is too short by :math:`1 - 1/n`: in groups of one size a matter of the learning rate,
    in ragged ones of how much small groups count. Computed from the centred rewards, so that both agree to the bit.

    Degenerate cases are :class:`GroupMean`'s: one valid member gets 0, exactly equal rewards give exactly 0, a member
    that is not valid gets 0 and changes no sibling.

    Sources: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free"; RLOO, Ahmadian et al. 2024,
    arXiv 2402.14740, section 2.3. Deviation from released code: of verl's two RLOO estimators one gives a lone member
    its raw reward and the other 0; here it is 0, since a lone member has nothing to compare with.

    >>> import numpy as np
    >>> m = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5))
    >>> LeaveOneOut().advantages(m).round(3).tolist()
    [1.0, -0.333, -0.333, -0.333]
    """

    def advantages(self, members: Members) -> Floats:
        n = int(members.valid_G.sum())
        return GroupMean(std=False).advantages(members) * (n / max(n - 1, 1))
