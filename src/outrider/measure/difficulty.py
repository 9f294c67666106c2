"""Measures cumulative advantage: the total weight that a batch's advantages give to problems of each difficulty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrider.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Total absolute advantage of a group, as a function of the group's observed accuracy. Arrays have one entry per
    accuracy bin, starting with the lowest accuracy.

    The first bin holds groups without a success. The last bin holds groups without a failure. In these two bins,
    advantages are 0 if the reward depends on success alone and the baseline is the group mean. The other bins have
    equal width and include their upper end: ``low < accuracy <= high``.

    Attributes:
        low_B, high_B: lower and upper ends of the bins; the two ends are equal in the first and in the last bin.
        groups_B: number of groups in each bin.
        size_B: mean number of rollouts per group. For an empty bin, ``size_B``, ``weight_B`` and ``error_B`` are NaN.
        weight_B, error_B: mean over groups of the sum of \\|A\\|, and its standard error (NaN if all groups belong
            to one problem).
        share_B: each bin's share of the batch's total \\|A\\|; NaN if all advantages are 0.
        unassigned: number of rollouts without an advantage (NaN), which have weight 0.
        unknown: number of groups that are not in any bin, because none of their rollouts was verified.
    """

    low_B: Floats
    high_B: Floats
    groups_B: Ints
    size_B: Floats
    weight_B: Floats
    error_B: Floats
    share_B: Floats
    unassigned: int
    unknown: int


def cumulative_advantage(
    group_R: ArrayLike,
    success_R: ArrayLike,
    advantage_R: ArrayLike,
    counted_R: ArrayLike | None = None,
    bins: int = 8,
    problem_R: ArrayLike | None = None,
) -> Weights:
    r"""Sum the absolute advantages in each group, and return the mean of these sums for each bin of group accuracy.

    .. math:: \mathcal{A}_\text{group} = \sum_i |A_i|, \qquad u = \frac{\text{successes}}{\text{scorable}}

    Each array has one entry per rollout. ``group_R`` is the rollout's group (any labels). ``success_R`` is 1 or 0, or
    NaN if the rollout could not be verified. ``advantage_R`` is the advantage, or NaN if there is none.

    ``counted_R`` selects the rollouts from which the accuracy is computed. If None, all verified rollouts are used. The
    sum of advantages is always over the whole group. For a method that samples a few rollouts and then allocates more,
    select the first rollouts. The result then shows how the method treats problems with equal initial accuracy, as in
    the DARS paper. Do not select rollouts that continue another rollout or whose prompt has exemplars, since their
    success does not estimate a problem's accuracy.

    The result is a curve over the *observed* accuracy. ``benchmarks/studies/cumulative_advantage.py`` computes the
    exact curve over the *true* pass rate. The two curves may differ strongly at low pass rates. There, most groups have
    no success in either pass, and in the study such groups have weight 0. The exact curve therefore goes to 0 at pass
    rate 0, even if the weight grows as the observed accuracy falls (DARS-HW).

    ``problem_R`` is the problem of each rollout. If None, every group has a separate problem. Groups of one problem are
    correlated, so standard errors are clustered by problem.

    Raises:
        ValueError: the arrays differ in length, a success is not 0, 1 or NaN, or ``bins`` is odd (1/2 must be the end
            of a bin).

    Source: DARS, arXiv 2508.13755, section 2.1, Eq. 2, Figures 2 and 16.

    >>> advantages = [0.75, -0.25, -0.25, -0.25, 0.5, -0.5]
    >>> found = cumulative_advantage([0] * 4 + [1] * 2, [1, 0, 0, 0, 1, 0], advantages, bins=4)
    >>> found.groups_B.tolist(), found.weight_B[[1, 2]].tolist()
    ([0, 1, 1, 0, 0, 0], [1.5, 1.0])
    """
    success, advantage = np.asarray(success_R, dtype=np.float64), np.asarray(advantage_R, dtype=np.float64)
    counted = np.ones(success.shape, np.bool_) if counted_R is None else np.asarray(counted_R, dtype=np.bool_)
    if not np.shape(group_R) == success.shape == advantage.shape == counted.shape:
        raise ValueError("groups, successes, advantages and counted flags must have equal lengths")
    if bins < 2 or bins % 2:
        raise ValueError(f"bins must be even, so that 1/2 is the end of a bin, not {bins}")
    verified_R = counted & ~np.isnan(success)
    if not np.isin(success[verified_R], (0, 1)).all():
        raise ValueError("success must be 0, 1 or NaN")
    labels, of_group_R, size_G = np.unique(np.asarray(group_R), return_inverse=True, return_counts=True)
    verified_G = np.bincount(of_group_R[verified_R], minlength=len(labels))
    won_G = np.bincount(of_group_R[verified_R], success[verified_R], len(labels)).astype(np.int64)
    weight_G = np.bincount(of_group_R, np.abs(np.nan_to_num(advantage)), len(labels)).astype(np.float64)
    known_G = verified_G > 0
    bin_G = _bin(won_G[known_G], verified_G[known_G], bins)
    _, problem_G = np.unique(labels if problem_R is None else _of_groups(problem_R, of_group_R), return_inverse=True)
    counts = int(np.isnan(advantage).sum()), int((~known_G).sum())
    return _table(bin_G, size_G[known_G], weight_G[known_G], problem_G[known_G], bins, *counts)


def _of_groups(problem_R: ArrayLike, of_group_R: Ints) -> NDArray[Any]:
    """Return the problem of each group, which is the problem of the group's first rollout."""
    first_G = np.unique(of_group_R, return_index=True)[1]
    return np.asarray(problem_R)[first_G]


def _bin(won_G: Ints, verified_G: Ints, bins: int) -> Ints:
    """Return each group's bin. The bin is 0 for a group without a success, and ``bins + 1`` for a group without a
    failure. Otherwise, the bin is ``b`` if the accuracy, rounded up to a multiple of ``1 / bins``, is ``b / bins``.
    """
    # integer arithmetic that rounds up: in floating point, 3/8 could fall into the next higher bin
    inside_G = -(-won_G * bins // verified_G)
    return np.where(won_G == verified_G, bins + 1, inside_G)


def _table(
    bin_G: Ints, size_G: Ints, weight_G: Floats, problem_G: Ints, bins: int, unassigned: int, unknown: int
) -> Weights:
    edges = np.arange(bins + 1) / bins
    groups_B = np.bincount(bin_G, minlength=bins + 2)
    counts_B = np.where(groups_B > 0, groups_B, np.nan)
    sum_B = np.bincount(bin_G, weight_G, bins + 2)
    mean_B = sum_B / counts_B
    with np.errstate(divide="ignore", invalid="ignore"):
        error_B = _errors(bin_G, problem_G, weight_G - mean_B[bin_G], counts_B)
        share_B = sum_B / sum_B.sum()
    return Weights(
        low_B=np.concatenate([[0.0], edges]),
        high_B=np.concatenate([edges, [1.0]]),
        groups_B=groups_B,
        size_B=np.bincount(bin_G, size_G, bins + 2) / counts_B,
        weight_B=mean_B,
        error_B=error_B,
        share_B=share_B,
        unassigned=unassigned,
        unknown=unknown,
    )


def _errors(bin_G: Ints, problem_G: Ints, above_G: Floats, counts_B: Floats) -> Floats:
    """Return standard errors of the means over groups, clustered by problem; NaN for fewer than two problems."""
    cell_G, bins = problem_G * len(counts_B) + bin_G, len(counts_B)
    cells_C, of_G = np.unique(cell_G, return_inverse=True)
    sums_C = np.bincount(of_G, above_G)
    problems_B = np.bincount(cells_C % bins, minlength=bins)
    squares_B = np.bincount(cells_C % bins, sums_C**2, bins)
    return np.where(problems_B > 1, np.sqrt(squares_B * problems_B / (problems_B - 1.0)) / counts_B, np.nan)
