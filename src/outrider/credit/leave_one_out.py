"""The leave-one-out baseline of RLOO."""

from __future__ import annotations

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class LeaveOneOut(Baseline):
    r"""The advantage is the reward minus the mean reward of the group's other members.

    .. math:: A_i = r_i - \frac{1}{n-1} \sum_{j \ne i} r_j = \frac{n}{n-1} (r_i - \mu)

    The sum and the mean :math:`\mu` are over the ``n`` valid members. The baseline of a response does not depend on the
    response itself, so the mean over members of :math:`A_i \nabla \log \pi(y_i)` is an unbiased estimate of the
    gradient of the expected reward. :class:`GroupMean` without ``std`` gives this estimate times :math:`1 - 1/n`. With
    groups of equal size, a larger learning rate compensates for the factor :math:`1 - 1/n`. If groups differ in size,
    this factor gives small groups less weight than large groups.

    Degenerate cases, as in :class:`GroupMean`: a single valid member gets 0, and exactly equal rewards give exactly 0.
    An invalid member (a rollout that the verifier could not score) gets 0 and does not affect the other members.

    Sources: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free"; RLOO, Ahmadian et al. 2024, arXiv
    2402.14740, section 2.3. Deviation from released code: one of verl's two RLOO estimators gives a single member its
    raw reward, and the other estimator gives 0. This baseline gives 0, since there is no other member to compare with.

    >>> import numpy as np
    >>> m = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5))
    >>> LeaveOneOut().advantages(m).round(3).tolist()
    [1.0, -0.333, -0.333, -0.333]
    """

    def advantages(self, members: Members) -> Floats:
        n = int(members.valid_G.sum())
        return GroupMean(std=False).advantages(members) * (n / max(n - 1, 1))
