"""Estimates the gradient of pass@k, averaged over problems that may have different numbers of rollouts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import BatchBaseline
from outrider.credit.members import Members
from outrider.credit.passk import PassK


class StatedGoal(BatchBaseline):
    r"""Advantages that estimate the gradient of pass@k, averaged over problems.

    .. math:: A_{ij} = \frac{\bar n}{n_i} A_{ij}^{(k)}, \qquad \bar n = \frac{1}{P} \sum_{i=1}^{P} n_i

    ``P`` is the number of problems with a valid member (a rollout that the verifier could score), ``n_i`` is the number
    of valid members of problem i, and :math:`A^{(k)}` is the PKPO advantage (:class:`~outrider.credit.passk.PassK`; for
    ``k`` = 1 :class:`~outrider.credit.leave_one_out.LeaveOneOut`). Over the members of one problem, the mean of
    :math:`A^{(k)}_{ij} \nabla \log \pi(y_{ij})` is an unbiased estimate of :math:`\nabla U_k(p_i)`, with :math:`U_k(p)
    = 1 - (1 - p)^k`. So the mean over all members of :math:`A_{ij} \nabla \log \pi(y_{ij})` is an unbiased estimate of
    :math:`\nabla \frac{1}{P} \sum_i U_k(p_i)`, if the numbers of rollouts were fixed before sampling: groups of
    different sizes change the variance, not the goal.

    The estimate is unbiased only if the policy gradient is exactly the mean of :math:`A_{ij} \nabla \log \pi(y_{ij})`
    over all members. So the denominator of the loss must not depend on response lengths (``aggregate: constant``), and
    a training step must consist of one update. With several updates per step, the loss of each update is divided by the
    number of members in its mini-batch. A problem would then have less weight in a mini-batch with large groups.

    If all groups have the same size, this baseline equals PKPO's baseline; for ``k`` = 1 it equals the leave-one-out
    baseline. Degenerate cases: a problem with fewer than ``k`` valid members, or with equal rewards, has advantages of
    0, as with PKPO. Such a problem still counts in the number of problems, ``P``, unless it has no valid member.

    >>> import numpy as np
    >>> one = Members(np.array([1.0, 0.0]), np.array([True, False]), np.ones(2, np.int64))
    >>> other = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.ones(4, np.int64))
    >>> [a.tolist() for a in StatedGoal().of_batch([one, other])]
    [[1.5, -1.5], [0.75, -0.25, -0.25, -0.25]]
    """

    k: int = Field(1, ge=1, description="k of the pass@k objective whose gradient the advantages estimate")

    @property
    def goal(self) -> int:
        return self.k

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        sizes = [int(members.valid_G.sum()) for members in groups]
        mean = sum(sizes) / max(sum(n > 0 for n in sizes), 1)
        passk = PassK(k=self.k, variant="pkpo")
        return [passk.advantages(members) * (mean / max(n, 1)) for members, n in zip(groups, sizes, strict=True)]
