"""The James-Stein baseline: a problem's mean reward, shrunk towards the mean reward of the other problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import BatchBaseline
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.credit.members import Members


class Shrinkage(BatchBaseline):
    r"""The advantage is the reward minus a shrinkage estimate of the problem's mean reward. The estimate is computed
    from all problems of the step.

    .. math:: A_{ij} = r_{ij} - (1 - \lambda_i) \mu_i^{-j} - \lambda_i \mu^{-i}, \qquad
              \lambda_i = \frac{v / n_i}{v / n_i + s^2}

    Here ``n_i`` is the number of valid members of group i, and :math:`\mu_i^{-j}` is the mean reward of the group's
    other members. :math:`\mu^{-i}` and :math:`s^2` are the mean and (population) variance of the other groups' mean
    rewards. :math:`v` is the mean of the unbiased reward variances within those other groups that have at least two
    valid members. The baseline does not depend on the response itself, so the mean over members of :math:`A_{ij} \nabla
    \log \pi(y_{ij})` is an unbiased estimate of the gradient of the expected reward, as with
    :class:`~outrider.credit.leave_one_out.LeaveOneOut`. If groups are small and problems are similar, the estimate has
    a lower variance than with the leave-one-out baseline. For identical problems :math:`s^2` is the sampling noise of
    their means, and :math:`\lambda_i` is one half.

    A group with equal rewards can have nonzero advantages, all of one sign. This happens if rewards differ within
    another group and the other groups' mean reward differs from this group's reward. Degenerate cases: a group uses the
    leave-one-out baseline if it is the only group, or if rewards are equal within each of the other groups. A single
    member is compared only with the other groups (:math:`\lambda_i = 1`), and gets 0 if there are no other groups. An
    invalid member (a rollout that the verifier could not score) gets 0 and does not affect the other members.

    Source: "Shrinking the Variance", Zeng et al., arXiv 2511.03710 (only its abstract, project page and released code
    were available). The released code adds 1e-6 to the denominator of :math:`\lambda_i` and assumes that all groups
    have the same size. This baseline counts each group once in :math:`\mu^{-i}`, whatever its size, and divides
    :math:`v` by the group's own size.

    >>> mixed, unsolved = (Members(np.array(r), np.array(r) > 0, np.array([3, 1])) for r in ([1.0, 0.0], [0.0, 0.0]))
    >>> [a.round(3).tolist() for a in Shrinkage().of_batch([mixed, mixed, unsolved])]
    [[0.833, -0.5], [0.833, -0.5], [-0.5, -0.5]]
    """

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        others = _Others([members.rewards_G[members.valid_G] for members in groups])
        result = []
        for i, members in enumerate(groups):
            share, mean = others.pull(i)
            apart_G = np.where(members.valid_G, members.rewards_G - mean, 0.0)
            result.append((1 - share) * LeaveOneOut().advantages(members) + share * apart_G)
        return result


class _Others:
    """For each group, statistics of all other groups.

    Means and variances of groups are computed once. Each group then needs only a pass over the other groups' means and
    variances.
    """

    def __init__(self, rewards: Sequence[Floats]) -> None:
        self._sizes = [len(each) for each in rewards]
        scored = [each for each in rewards if len(each)]
        self._place = np.cumsum([0, *(size > 0 for size in self._sizes)])  # index among the groups with rewards
        # a first reward from the other groups is subtracted, so that the mean of equal rewards has no rounding error
        self._first = [each[0] for each in scored[:2]]
        self._means = [np.array([(each - first).mean() for each in scored]) for first in self._first]
        self._variances = np.array([(each - each[0]).var(ddof=1) if len(each) > 1 else np.nan for each in scored])

    def pull(self, i: int) -> tuple[float, float]:
        """Return the shrinkage λ of group ``i``, and the mean of the other groups' mean rewards."""
        n, place = self._sizes[i], self._place[i]
        own = [place] if n else []
        which = 1 if own == [0] else 0
        if len(self._first) <= which:
            return 0.0, 0.0
        means = np.delete(self._means[which], own)
        mean = float(self._first[which] + means.mean())
        if n < 2:
            return 1.0, mean
        inside = np.delete(self._variances, own)
        inside = inside[~np.isnan(inside)]
        noise = float(inside.mean()) / n if len(inside) else 0.0
        return (noise / (noise + float(means.var())) if noise else 0.0), mean
