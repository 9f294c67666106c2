"""Compares two recipes at equal pass@1, or after equal steps or tokens, instead of at the end of their budgets."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats
from outrider.bench.crossed import Estimate, estimate
from outrider.bench.results import Arm, Measured, along, values_of


class Equal(NamedTuple):
    """A difference in pass@k, and the common pass@1 at which the difference was measured. Both are NaN if there is no
    common pass@1."""

    pass1: float
    change: Estimate


class EqualSpent(NamedTuple):
    """A difference in pass@k, and the number of steps or tokens after which the difference was measured."""

    spent: float
    change: Estimate


class _Line(NamedTuple):
    """The learning curve of one recipe.

    Attributes:
        x, y: pass@1 and pass@k, ``[evaluations, S, P]`` for S seeds and P problems.
        heights: mean pass@1 of each evaluation.
    """

    x: Floats
    y: Floats
    heights: Floats

    @property
    def top(self) -> int:
        return int(self.heights.argmax())


def at_equal_pass1(before: Arm, base: Arm, arm: Arm, k: int) -> Equal:
    r"""Return the difference in pass@k, ``arm`` minus ``base``, at the highest pass@1 that both recipes have reached.

    Mean pass@1 and mean pass@k are interpolated linearly between a recipe's evaluations, starting at the policy before
    training. Let m be the recipe with the lower maximum of mean pass@1, and o the other recipe. Let i and i + 1 be the
    evaluations of o between which its mean pass@1 first reaches the maximum of m. There, the interpolated value of a
    metric z is :math:`z_w = (1 - w) z_i + w z_{i+1}`. Let x be pass@1 and y pass@k; for m, both are taken at the
    maximum. Let b be the slope of o's mean y over its mean x between evaluations i and i + 1. Then

    .. math:: D = \pm \big(\bar y_m - \bar y_{o,w}\big), \qquad
       d_{sp} = \pm \big(y_m - y_{o,w} - b\,(x_m - x_{o,w})\big)_{sp}

    D is the difference in pass@k, and the mean of :math:`d_{sp}` over seeds s and problems p. In both formulas,
    :math:`\pm` is + if ``arm`` is m, and - if ``arm`` is o. The term with b accounts for the uncertainty of w (delta
    method), so :func:`~outrider.bench.crossed.estimate` computes the interval from :math:`d_{sp}`. The interval ignores
    that another evaluation of m may have the true maximum, and that another i may be the right one. If two evaluations
    of m are nearly equal in pass@1 but not in pass@k, the interval is too narrow (simulated in docs/intervals.md).

    Assumes the same seeds in the same order in both arms. The intervals do not account for the error of linear
    interpolation, which decreases with the number of evaluations. A problem is excluded if its pass@k for the maximum k
    is unknown in any evaluation. Calls with different ``k`` therefore use the same problems and the same pass@1.
    Degenerate cases: the result is NaN if one of the two recipes never exceeds the pass@1 of the policy before
    training, or if no pass@k is known.
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
    """Return the difference in pass@k, ``arm`` minus ``base``, after as many steps or tokens as the shortest run has in
    total.

    pass@k of the longer runs is interpolated linearly between the two evaluations around this total. pass@k rises fast
    at first and more slowly later. The interpolation therefore underestimates pass@k of the longer runs and favours the
    recipe of the shortest run. :func:`~outrider.bench.crossed.estimate` computes the interval from the paired
    differences; the interval does not account for this bias. There is no extrapolation before a run's first evaluation.
    Assumes the same seeds in the same order in both arms. A problem is excluded if its pass@k for the maximum k is
    unknown in any evaluation, so that all k use the same problems. Degenerate cases: the result is NaN if no pass@k is
    known, or if a run ends before another run's first evaluation.
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
    """Return pass@k of one run after ``level`` steps or tokens, with shape ``[P]``. ``level`` lies between the run's
    evaluations."""
    y, x = values_of(run.points, k)[:, 0], [float(getattr(point, spent)[0]) for point in run.points]
    i = int(np.searchsorted(x, level))
    if x[i] == level:
        return np.asarray(y[i])
    w = (level - x[i - 1]) / (x[i] - x[i - 1])
    between: Floats = (1 - w) * y[i - 1] + w * y[i]
    return between


def _above(lower: _Line, other: _Line) -> Floats:
    """Return pass@k of ``lower`` at its highest mean pass@1, minus the interpolated pass@k of ``other`` at the same
    mean pass@1. The result is :math:`d_{sp}` of :func:`at_equal_pass1`, with sign + and shape ``[S, P]``."""
    level = lower.heights[lower.top]
    i = int((other.heights >= level).argmax())  # at least 1: both curves start at the same point, below the level
    rise = other.heights[i] - other.heights[i - 1]
    w, slope = (level - other.heights[i - 1]) / rise, (other.y[i].mean() - other.y[i - 1].mean()) / rise
    x_w, y_w = ((1 - w) * line[i - 1] + w * line[i] for line in (other.x, other.y))
    # the last term is the effect of pass@1 on where the curve crosses the level
    above: Floats = lower.y[lower.top] - y_w - slope * (lower.x[lower.top] - x_w)
    return above


def _line(before: Arm, arm: Arm, k: int, known_P: NDArray[np.bool_]) -> _Line:
    x, y = (along(before, arm, each)[:, :, known_P] for each in (1, k))
    return _Line(x, y, x.mean(axis=(1, 2)))
