"""The James-Stein baseline: the mean of a problem's own responses, drawn towards the mean of the other problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.arrays import Floats
from outrider.credit.chain import BatchBaseline
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.credit.members import Members


class Shrinkage(BatchBaseline):
    r"""Reward minus a guess at the problem's mean reward that borrows from the other problems of the step.

    .. math:: A_{ij} = r_{ij} - (1 - \lambda_i) \mu_i^{-j} - \lambda_i \mu^{-i}, \qquad
              \lambda_i = \frac{v / n_i}{v / n_i + s^2}

    over the ``n_i`` valid members of group i, with :math:`\mu_i^{-j}` the mean of the others of them and, all of the
    other groups that have a valid member: :math:`\mu^{-i}` the mean and :math:`s^2` the (population) variance of their
    means, :math:`v` the mean of their unbiased variances inside, of those with two or more. Nothing of it depends on
    the response itself, so as with :class:`~outrider.credit.leave_one_out.LeaveOneOut` the mean over members of
    :math:`A_{ij} \nabla \log \pi(y_{ij})` is an unbiased estimate of the gradient of the expected reward; its variance
    is less where a few responses say little of a problem and problems are much alike. Of problems that are all alike,
    :math:`s^2` is the noise of their means, and a group is drawn half of the way.

    So a unanimous group has an advantage, too, as long as others are mixed and differ from it: all of one sign.
    Degenerate cases: a group that comes alone, or among unanimous ones, is compared with itself, as leave-one-out does;
    a lone member with the other groups alone (:math:`\lambda_i = 1`), and gets 0 where there are none. A member that is
    not valid gets 0 and changes no other.

    Source: Zeng et al. 2025, arXiv 2511.03710, "Shrinking the Variance" (of the paper its abstract, page and released
    code could be read). That code adds 1e-6 to the denominator, and has groups of one size: here a group counts once
    in :math:`\mu^{-i}`, however large it is, and :math:`v` is divided by the group's own size.

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
    """How much a group of ``n`` is drawn to the mean of the others, and that mean."""
    if not others:
        return 0.0, 0.0
    first = others[0][0]  # distances from it, so that equal rewards have a mean without rounding
    means = np.array([(each - first).mean() for each in others])
    mean = float(first + means.mean())
    if n < 2:
        return 1.0, mean
    inside = [(each - each[0]).var(ddof=1) for each in others if len(each) > 1]
    noise = float(np.mean(inside)) / n if inside else 0.0
    return (noise / (noise + float(means.var())) if noise else 0.0), mean
