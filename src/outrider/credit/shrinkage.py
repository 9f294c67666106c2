"""The James-Stein baseline: a problem's mean reward, shrunk towards the mean of the other problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import BatchBaseline
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.credit.members import Members


class Shrinkage(BatchBaseline):
    r"""Reward minus a shrinkage estimate of the problem's mean reward, computed from all problems of the step.

    .. math:: A_{ij} = r_{ij} - (1 - \lambda_i) \mu_i^{-j} - \lambda_i \mu^{-i}, \qquad
              \lambda_i = \frac{v / n_i}{v / n_i + s^2}

    over the ``n_i`` valid members of group i, with :math:`\mu_i^{-j}` the mean reward of the others. :math:`\mu^{-i}`
    and :math:`s^2` are the mean and (population) variance of the other groups' mean rewards. :math:`v` is the mean of
    the unbiased reward variances within those other groups that have at least two valid members. The baseline does not
    depend on the response itself, so the mean over members of :math:`A_{ij} \nabla \log \pi(y_{ij})` is an unbiased
    estimate of the gradient of the expected reward, as with :class:`~outrider.credit.leave_one_out.LeaveOneOut`. Its
    variance is lower if groups are small and problems similar. For identical problems :math:`s^2` is the sampling noise
    of their means, and :math:`\lambda_i` is one half.

    A group with equal rewards also has advantages, all of one sign, if other groups are mixed and have a different
    mean. Degenerate cases: a group has the leave-one-out baseline if it is the only group, or if rewards are equal
    within each of the other groups. A single member is compared only with the other groups (:math:`\lambda_i = 1`), and
    gets 0 if there are none. An invalid member gets 0 and does not affect others.

    Source: Zeng et al. 2025, arXiv 2511.03710, "Shrinking the Variance" (only its abstract, project page and released
    code were available). That code adds 1e-6 to the denominator, and assumes groups of equal size. This baseline counts
    each group once in :math:`\mu^{-i}`, whatever its size, and divides :math:`v` by the group's own size.

    >>> mixed, unsolved = (Members(np.array(r), np.array(r) > 0, np.array([3, 1])) for r in ([1.0, 0.0], [0.0, 0.0]))
    >>> [a.round(3).tolist() for a in Shrinkage().of_batch([mixed, mixed, unsolved])]
    [[0.833, -0.5], [0.833, -0.5], [-0.5, -0.5]]
    """

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        rewards = [members.rewards_G[members.valid_G] for members in groups]
        result = []
        for i, members in enumerate(groups):
            others = [each for j, each in enumerate(rewards) if j != i and len(each)]
            share, mean = _pull(len(rewards[i]), others)
            apart_G = np.where(members.valid_G, members.rewards_G - mean, 0.0)
            result.append((1 - share) * LeaveOneOut().advantages(members) + share * apart_G)
        return result


def _pull(n: int, others: Sequence[Floats]) -> tuple[float, float]:
    """Return the shrinkage λ of a group with ``n`` valid members, and the mean of the other groups' mean rewards."""
    if not others:
        return 0.0, 0.0
    first = others[0][0]  # subtracted below, so that the mean of equal rewards has no rounding error
    means = np.array([(each - first).mean() for each in others])
    mean = float(first + means.mean())
    if n < 2:
        return 1.0, mean
    inside = [(each - each[0]).var(ddof=1) for each in others if len(each) > 1]
    noise = float(np.mean(inside)) / n if inside else 0.0
    return (noise / (noise + float(means.var())) if noise else 0.0), mean
