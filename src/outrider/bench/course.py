"""What a comparison of ends does not show: success on the way there, and which problems it is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.arrays import Flags, Floats
from outrider.bench.results import Arm, Measured, Point, along


def on_the_way(before: Arm, arm: Arm, k: int) -> Measured:
    r"""The mean of pass@k over a run's budget: the area under its curve, divided by the budget.

    Of each seed and problem, on straight lines between the evaluations, from the policy before training on; with
    ``x`` the share of the budget that was spent,

    .. math:: \sum_i (x_{i+1} - x_i) \frac{y_i + y_{i+1}}{2}.

    Two recipes that end alike differ in it where one was there sooner. A line lies below a curve that rises fast at
    first, so with few evaluations it is too small, most for a recipe that rises fastest. A problem whose pass@k is
    unknown at some evaluation of a seed is excluded from that seed.
    """
    shares = np.array([0.0, *(point.share for point in arm.points)])
    widths = np.diff(shares)
    weights = (np.concatenate([[0.0], widths]) + np.concatenate([widths, [0.0]])) / 2
    values_ISP = along(before, arm, k)
    means_SP: Floats = np.tensordot(weights, values_ISP, 1)  # NaN where one of them is
    known_SP: Floats = np.isfinite(means_SP).astype(np.float64)
    return Measured(np.nan_to_num(means_SP), known_SP)


class Turned(NamedTuple):
    """For each seed and problem whether the problem was solved by none of the first samples and by one of the later
    ones, and the reverse."""

    solved: Measured
    lost: Measured


def turned(first: Point, later: Point) -> Turned:
    """The problems that changed sides from one point to another. One without a sample that was verified is unknown.

    Samples are few, so some problems change sides between two draws of one policy, too.
    """
    (before_SP, verified_SP), (after_SP, verified_later_SP) = _solved(first), _solved(later)
    known_SP = verified_SP * verified_later_SP
    solved_SP, lost_SP = (known_SP * flags for flags in (~before_SP & after_SP, before_SP & ~after_SP))
    return Turned(Measured(solved_SP, known_SP), Measured(lost_SP, known_SP))


def _solved(point: Point) -> tuple[Flags, Floats]:
    """Whether a sample succeeded, and 1 where one was verified."""
    rows = [evaluation.tallies for evaluation in point.evaluations]
    solved_SP = np.array([[tally.successes > 0 for tally in row] for row in rows], np.bool_)
    return solved_SP, np.array([[tally.scorable > 0 for tally in row] for row in rows], np.float64)
