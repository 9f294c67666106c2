"""Computes statistics other than final success: mean success over training, and which problems became solved or
unsolved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.arrays import Flags, Floats
from outrider.bench.results import Arm, Measured, Point, along


def on_the_way(before: Arm, arm: Arm, k: int) -> Measured:
    r"""Return the mean of pass@k over a run's budget: the area under the pass@k curve, divided by the budget.

    For each seed and problem, pass@k is interpolated linearly between evaluations, starting at the policy before
    training. With ``x`` the spent share of the budget and ``y`` the value of pass@k, the mean is

    .. math:: \sum_i (x_{i+1} - x_i) \frac{y_i + y_{i+1}}{2}.

    Of two recipes with equal final pass@k, the recipe whose pass@k rises earlier has the higher mean. Linear
    interpolation underestimates a curve that rises fast at first. The bias is largest with few evaluations and for the
    recipe that rises fastest. If a problem's pass@k is unknown at any evaluation of a run, the problem is excluded for
    this run's seed.
    """
    shares = np.array([0.0, *(point.share for point in arm.points)])
    widths = np.diff(shares)
    weights = (np.concatenate([[0.0], widths]) + np.concatenate([widths, [0.0]])) / 2
    values_ISP = along(before, arm, k)
    means_SP: Floats = np.tensordot(weights, values_ISP, 1)  # NaN if any evaluation is NaN
    known_SP: Floats = np.isfinite(means_SP).astype(np.float64)
    return Measured(np.nan_to_num(means_SP), known_SP)


class Turned(NamedTuple):
    """For each seed and problem, whether the problem became solved or unsolved between two evaluations.

    Attributes:
        solved: 1 if no sample of the first evaluation solved the problem, but a sample of the later evaluation did.
        lost: 1 if a sample of the first evaluation solved the problem, but no sample of the later evaluation did.
    """

    solved: Measured
    lost: Measured


def turned(first: Point, later: Point) -> Turned:
    """Return which problems became solved or unsolved between the evaluations ``first`` and ``later``. A problem is
    excluded if the verifier could score none of its samples in one of the evaluations.

    With few samples, some problems become solved or unsolved even between two evaluations of the same policy.
    """
    (before_SP, verified_SP), (after_SP, verified_later_SP) = _solved(first), _solved(later)
    known_SP = verified_SP * verified_later_SP
    solved_SP, lost_SP = (known_SP * flags for flags in (~before_SP & after_SP, before_SP & ~after_SP))
    return Turned(Measured(solved_SP, known_SP), Measured(lost_SP, known_SP))


def _solved(point: Point) -> tuple[Flags, Floats]:
    """Return two arrays with one value per seed and problem. The first says whether any sample succeeded. The second is
    1 if the verifier could score any sample, otherwise 0."""
    rows = [evaluation.tallies for evaluation in point.evaluations]
    solved_SP = np.array([[tally.successes > 0 for tally in row] for row in rows], np.bool_)
    return solved_SP, np.array([[tally.scorable > 0 for tally in row] for row in rows], np.float64)
