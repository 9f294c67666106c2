"""Two recipes compared where both have the same pass@1, not where their budgets ended."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from outrider.bench.crossed import Estimate, Floats, Measured, estimate
from outrider.bench.results import Arm


class Equal(NamedTuple):
    """A difference in pass@k, and the pass@1 at which it was taken; both NaN where there is no such place."""

    pass1: float
    change: Estimate


def at_equal_pass1(before: Arm, base: Arm, arm: Arm, k: int) -> Equal:
    r"""How much more pass@k ``arm`` has than ``base`` at equal pass@1: the highest that both have measured.

    A recipe is a line of straight pieces through its means over seeds, from the policy before training on. Let m be
    the recipe whose highest pass@1 is the lower one, and o the other, which first has that pass@1 between its points i
    and i + 1, with weight w on the second. With x for pass@1, y for pass@k, b the slope of that piece, and
    :math:`z_w = (1 - w) z_i + w z_{i+1}`,

    .. math:: D = \pm \big(\bar y_m - \bar y_{o,w}\big), \qquad
       d_{sp} = \pm \big(y_m - y_{o,w} - b\,(x_m - x_{o,w})\big)_{sp}

    The mean of d over seeds s and problems p is D, and d is how D changes with the data to first order, w included
    (the delta method), so the interval is that of :func:`~outrider.bench.crossed.estimate` over d.

    Assumes the same seeds on both sides, in the same order, and that a line between two points is straight; more
    points make it finer. A problem on which something is unknown is left out. Degenerate: NaN where one of the two
    never has more pass@1 than the policy before training, or nothing is known.
    """
    lines = [_line(before, a, q) for a in (base, arm) for q in ("pass@1", f"pass@{k}")]
    known_P = np.isfinite(np.concatenate(lines)).all(axis=(0, 1))
    if not known_P.any():
        return _none(base, 0)
    x_base, y_base, x_arm, y_arm = (line[:, :, known_P] for line in lines)
    top_base, top_arm = (int(x.mean(axis=(1, 2)).argmax()) for x in (x_base, x_arm))
    if 0 in (top_base, top_arm):
        return _none(base, int(known_P.sum()))
    if x_arm[top_arm].mean() <= x_base[top_base].mean():
        level, d_SP = x_arm[top_arm], _above(x_arm[top_arm], y_arm[top_arm], x_base, y_base)
    else:
        level, d_SP = x_base[top_base], -_above(x_base[top_base], y_base[top_base], x_arm, y_arm)
    return Equal(float(level.mean()), estimate(Measured(d_SP, np.ones_like(d_SP))))


def _line(before: Arm, arm: Arm, quantity: str) -> Floats:
    """A quantity along training, the policy before training first; ``[points, S, P]``, NaN where it is unknown."""
    found = [point.measured(quantity) for point in (*before.points, *arm.points)]
    return np.stack(np.broadcast_arrays(*(np.where(m.counts_SP > 0, m.totals_SP, np.nan) for m in found)))


def _above(x_SP: Floats, y_SP: Floats, line_x: Floats, line_y: Floats) -> Floats:
    """How far the point (x, y) lies above the line where that first has its mean x, to first order in the data."""
    heights = line_x.mean(axis=(1, 2))
    i = int((heights >= x_SP.mean()).argmax())  # 1 at least: the line begins below
    rise = heights[i] - heights[i - 1]
    w, slope = (x_SP.mean() - heights[i - 1]) / rise, (line_y[i].mean() - line_y[i - 1].mean()) / rise
    x_w, y_w = ((1 - w) * line[i - 1] + w * line[i] for line in (line_x, line_y))
    above: Floats = y_SP - y_w - slope * (x_SP - x_w)
    return above


def _none(base: Arm, problems: int) -> Equal:
    return Equal(math.nan, Estimate(math.nan, math.nan, math.nan, len(base.seeds), problems))
