"""The gradient of a stated goal (pass@k) under any allocation: problems have equal weight for any number of
rollouts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import BatchBaseline
from outrider.credit.members import Members
from outrider.credit.passk import PassK


class StatedGoal(BatchBaseline):
    r"""Advantages whose mean over all members estimates the gradient of the mean over problems of pass@k.

    .. math:: A_{ij} = \frac{\bar n}{n_i} A_{ij}^{(k)}, \qquad \bar n = \frac{1}{P} \sum_{i=1}^{P} n_i

    with the ``n_i`` valid members of each of the ``P`` problems with a valid member, and PKPO's :math:`A^{(k)}`
    (:class:`~outrider.credit.passk.PassK`; for ``k`` = 1 that of :class:`~outrider.credit.leave_one_out.LeaveOneOut`),
    whose mean over the members of one problem estimates :math:`\nabla U_k(p_i)`, :math:`U_k(p) = 1 - (1 - p)^k`,
    without bias. So the mean over all members of :math:`A_{ij} \nabla \log \pi(y_{ij})` estimates :math:`\nabla
    \frac{1}{P} \sum_i U_k(p_i)` without bias if the numbers of rollouts were fixed before sampling: ragged groups
    change the variance, not the goal. The objective has to use that mean unchanged: without a denominator that depends
    on response lengths (``aggregate: constant``), and with one update per step. With several updates each divides by
    its own number of members, so a problem has less weight in a mini-batch with large groups.

    With groups of equal size this is PKPO, or leave-one-out. Degenerate cases are those of ``pkpo``: fewer than ``k``
    valid members, or equal rewards, give 0, and the problem still counts in ``P``. A problem without a valid member
    does not count.

    >>> import numpy as np
    >>> one = Members(np.array([1.0, 0.0]), np.array([True, False]), np.ones(2, np.int64))
    >>> other = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.ones(4, np.int64))
    >>> [a.tolist() for a in StatedGoal().of_batch([one, other])]
    [[1.5, -1.5], [0.75, -0.25, -0.25, -0.25]]
    """

    k: int = Field(1, ge=1, description="k of the pass@k objective")

    @property
    def goal(self) -> int:
        return self.k

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        sizes = [int(members.valid_G.sum()) for members in groups]
        mean = sum(sizes) / max(sum(n > 0 for n in sizes), 1)
        passk = PassK(k=self.k, variant="pkpo")
        return [passk.advantages(members) * (mean / max(n, 1)) for members, n in zip(groups, sizes, strict=True)]
