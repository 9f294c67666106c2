"""Two recipes compared at equal pass@1, or after equal steps or tokens, instead of at the ends of their budgets."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats
from outrider.bench.crossed import Estimate, estimate
from outrider.bench.results import Arm, Measured, along, values_of


class Equal(NamedTuple):
    """A difference in pass@k, and the pass@1 at which it was taken; both NaN where there is no such place."""

    pass1: float
    change: Estimate


class EqualSpent(NamedTuple):
    """A difference in pass@k, and the steps or tokens after which it was taken."""

    spent: float
    change: Estimate


class _Line(NamedTuple):
    """pass@1 and pass@k along training, ``[points, S, P]``, and the mean pass@1 of each point."""

    x: Floats
    y: Floats
    heights: Floats

    @property
    def top(self) -> int:
        return int(self.heights.argmax())


def at_equal_pass1(before: Arm, base: Arm, arm: Arm, k: int) -> Equal:
    r"""How much more pass@k ``arm`` has than ``base`` at equal pass@1: the highest that both have reached.

    A recipe is a piecewise linear curve through its means over seeds, from the policy before training on. Let m be
    the recipe whose highest point in pass@1 is the lower one, and o the other, which first crosses that height between
    its points i and i + 1, with weight w on the second. With x for pass@1, y for pass@k, b the slope of that segment,
    and :math:`z_w = (1 - w) z_i + w z_{i+1}`,

    .. math:: D = \pm \big(\bar y_m - \bar y_{o,w}\big), \qquad
       d_{sp} = \pm \big(y_m - y_{o,w} - b\,(x_m - x_{o,w})\big)_{sp}

    with + where m is ``arm``. The mean of d over seeds s and problems p is D, and d - D is how a seed and a problem
    move D to first order, w included (the delta method), so the interval is that of
    :func:`~outrider.bench.crossed.estimate` over d. Which point is the highest and which segment is crossed are taken
    as
    given: where two points of m are nearly equal in pass@1 but not in pass@k, the interval is too short (simulated,
    docs/intervals.md).

    Assumes the same seeds on both sides, in the same order, and that a line between two points is straight; more
    points make it finer, and how far from straight it is is in no interval. A problem on which the pass@k of the most
    samples is unknown at some point is excluded, so all k have the same place. Degenerate: NaN where one of the two
    never has more pass@1 than the policy before training, or nothing is known.
    """
    known_P = np.isfinite(np.concatenate([along(before, a, before.ks[-1]) for a in (base, arm)])).all(axis=(0, 1))
    nothing = Equal(math.nan, Estimate(math.nan, math.nan, math.nan, len(base.seeds), int(known_P.sum())))
    if not known_P.any():
        return nothing
    first, second = (_line(before, a, k, known_P) for a in (base, arm))
    if 0 in (first.top, second.top):
        return nothing
    if second.heights[second.top] <= first.heights[first.top]:
        level, d_SP = second.heights[second.top], _above(second, first)
    else:
        level, d_SP = first.heights[first.top], -_above(first, second)
    return Equal(float(level), estimate(Measured(d_SP, np.ones_like(d_SP))))


def at_equal(spent: Literal["steps", "tokens"], base: Arm, arm: Arm, k: int) -> EqualSpent:
    """How much more pass@k ``arm`` has than ``base`` after equally many steps, or tokens: the most that all runs have.

    Every run of both is taken where it has spent as much as the run that spent least, between its two evaluations
    there on a straight line. Success rises fast at first and slower later, so such a line lies below the curve, and the
    recipe that ends there looks too good by that much; the interval, that of
    :func:`~outrider.bench.crossed.estimate` over the paired differences, does not cover it. Before a run's first
    evaluation a line would mean nothing, and there is no value. Assumes the same seeds on both sides, in the same
    order. A problem on which the pass@k of the most samples is unknown at some point is excluded, so all k have the
    same ones. Degenerate: NaN where nothing is known, or a run ends before another is first measured.
    """
    level = float(min(min(getattr(a.end, spent)) for a in (base, arm)))
    known_P = np.isfinite(np.concatenate([values_of(a.points, base.ks[-1]) for a in (base, arm)])).all(axis=(0, 1))
    first = max(max(getattr(a.points[0], spent)) for a in (base, arm))
    if first > level or not known_P.any():
        return EqualSpent(level, Estimate(math.nan, math.nan, math.nan, len(base.seeds), int(known_P.sum())))
    here, there = (np.stack([_at(level, a.only([seed]), spent, k) for seed in a.seeds]) for a in (base, arm))
    d_SP = (there - here)[:, known_P]
    return EqualSpent(level, estimate(Measured(d_SP, np.ones_like(d_SP))))


def _at(level: float, run: Arm, spent: str, k: int) -> Floats:
    """pass@k of one run where it has spent so much, which is between its first point and its last; ``[P]``."""
    y, x = values_of(run.points, k)[:, 0], [float(getattr(point, spent)[0]) for point in run.points]
    i = int(np.searchsorted(x, level))
    if x[i] == level:
        return np.asarray(y[i])
    w = (level - x[i - 1]) / (x[i] - x[i - 1])
    between: Floats = (1 - w) * y[i - 1] + w * y[i]
    return between


def _above(lower: _Line, other: _Line) -> Floats:
    """Difference between the highest point of ``lower`` and the interpolated curve of ``other``, to first order in the
    data; ``[S, P]``."""
    level = lower.heights[lower.top]
    i = int((other.heights >= level).argmax())  # 1 at least: both begin at one point, below the level
    rise = other.heights[i] - other.heights[i - 1]
    w, slope = (level - other.heights[i - 1]) / rise, (other.y[i].mean() - other.y[i - 1].mean()) / rise
    x_w, y_w = ((1 - w) * line[i - 1] + w * line[i] for line in (other.x, other.y))
    # the last term is the movement of the crossing itself when pass@1 changes
    above: Floats = lower.y[lower.top] - y_w - slope * (lower.x[lower.top] - x_w)
    return above


def _line(before: Arm, arm: Arm, k: int, known_P: NDArray[np.bool_]) -> _Line:
    x, y = (along(before, arm, each)[:, :, known_P] for each in (1, k))
    return _Line(x, y, x.mean(axis=(1, 2)))
