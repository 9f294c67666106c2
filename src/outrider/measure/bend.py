"""Tests whether a noisy training curve has a bend, for example where it reaches a plateau after a rise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats, Ints
from outrider.measure.blocks import NONE, IntervalBounds, bounds, noise

FEWEST = 12
"""Minimum number of points in a curve, so that two slopes, the bend between them and the noise can be estimated."""

_EDGE = 0.1  # share of the curve at each end without candidate bends, so that no segment is a single point
_PLACES = 200  # maximum number of candidate bends

CurveShape = Literal["too short", "constant", "flat", "steady", "levels off", "bends"]


@dataclass(frozen=True, slots=True)
class Bend:
    """The result of :func:`find_bend`. Values that are undefined for the curve's ``shape`` are NaN.

    Attributes:
        shape: ``"levels off"``: a rise (or fall), then a plateau. ``"bends"``: two slopes, of which the second is too
            steep for a plateau. ``"steady"``: one slope for the whole curve. ``"flat"``: no significant slope.
            ``"constant"``: all values are equal. ``"too short"``: fewer than :data:`FEWEST` points.
        excluded: number of points excluded because x or y is NaN or infinite.
        p_value: probability that a straight line with the same noise shows a bend at least as strong as the observed
            one.
        early, late: slopes per unit of x before and after the bend; without a bend, both are the slope of the straight
            line.
        bend: x at which the two segments meet; NaN for shapes without a bend.
        start, at_bend: fitted values at the first x and at the bend; ``at_bend`` is NaN for shapes without a bend.
    """

    shape: CurveShape
    excluded: int
    p_value: float = np.nan
    early: IntervalBounds = NONE
    late: IntervalBounds = NONE
    bend: IntervalBounds = NONE
    start: float = np.nan
    at_bend: float = np.nan


def find_bend(
    x_N: ArrayLike,
    y_N: ArrayLike,
    plateau: float = 0.25,
    significance: float = 0.05,
    resamples: int = 500,
    seed: int = 0,
) -> Bend:
    r"""Compare a straight line with two line segments that meet at a bend, both fitted by least squares.

    .. math:: y = c + s\, x + d \max(x - \tau, 0)

    The bend :math:`\tau` is the one with the smallest squared error among up to 200 candidates, which are points in the
    middle 80 % of the curve. Residuals of neighbouring steps are correlated. Therefore, residuals are resampled in
    blocks, to answer two questions:

    1. *Is there a bend?* The test statistic is the share by which the two segments reduce the squared error of the
       straight line. Two segments always fit better, so the statistic is compared with its values for ``resamples``
       simulated curves without a bend. A simulated curve is the straight line plus resampled residuals of the *two*
       segments. Residuals of the straight line would be too large if there is a bend.
    2. *Where is the bend, and how steep are the segments?* The confidence intervals of the bend and of the slopes come
       from fits to ``resamples`` simulated curves with a bend. Each of these curves is the fitted two segments plus
       resampled residuals.

    The curve ``levels off`` if the bend is significant and the late slope is at most ``plateau`` times as steep as the
    early slope. Falling curves, such as entropy, are handled in the same way. Bends in the first or last 10 % of the
    curve are not searched for, so if the result is close to these parts, the true bend may lie in them.

    Degenerate cases: points with NaN or infinity in x or y are excluded and counted. An exactly straight curve has no
    bend. The p-value is never below 1 / (resamples + 1).

    Raises:
        ValueError: x and y differ in length, x does not increase, or ``resamples < 1``.

    Source: STILL report, arXiv 2508.07534, section 3.2.2, which divides training into stages by eye. Hansen 1996,
    Econometrica 64: the search for a bend with a bootstrap test. Künsch 1989, Annals of Statistics 17: block bootstrap.

    >>> x = np.arange(60.0)
    >>> found = find_bend(x, np.minimum(x, 20) + np.sin(7 * x))
    >>> found.shape, round(found.bend.value)
    ('levels off', 20)
    """
    x, y = np.asarray(x_N, dtype=np.float64), np.asarray(y_N, dtype=np.float64)
    if x.shape != y.shape or resamples < 1:
        raise ValueError(f"x and y need equal lengths, and resamples >= 1, not {len(x)}, {len(y)}, {resamples}")
    known_N = np.isfinite(x) & np.isfinite(y)
    excluded = int((~known_N).sum())
    x, y = x[known_N], y[known_N]
    if (np.diff(x) <= 0).any():
        raise ValueError("x must increase")
    if len(x) < FEWEST or np.ptp(y) == 0:
        return Bend("too short" if len(x) < FEWEST else "constant", excluded)
    fit = _Candidates(x)
    p_value = _p_value(fit, y, resamples, seed)
    if p_value >= significance:
        line_N = fit.line(y)
        slope = bounds(fit.slope(y[None])[0], fit.slope(line_N + noise(y - line_N, 2, resamples, seed + 1)))
        shape: CurveShape = "steady" if slope.excludes_zero else "flat"
        return Bend(shape, excluded, p_value, slope, slope, start=float(line_N[0]))
    segments_N = fit.segments(y)
    drawn_BN = segments_N + noise(y - segments_N, 4, resamples, seed + 1)
    early, late = (
        bounds(value[0], draws_B) for value, draws_B in zip(fit.slopes(y[None]), fit.slopes(drawn_BN), strict=True)
    )
    bend = bounds(fit.places(y[None])[0], fit.places(drawn_BN))
    shape = "levels off" if abs(late.value) <= plateau * abs(early.value) else "bends"
    at_bend = float(np.interp(bend.value, x, segments_N))
    return Bend(shape, excluded, p_value, early, late, bend, float(segments_N[0]), at_bend)


class _Candidates:
    """The points among ``x_N`` at which a curve may bend. All candidates are evaluated together.

    Let :math:`q_k` be the hinge function of candidate k, made orthogonal to straight lines and scaled to unit length.
    So bend k reduces the squared error of the straight line by :math:`(q_k y)^2`.
    """

    def __init__(self, x_N: Floats) -> None:
        n = len(x_N)
        first, last = max(2, int(_EDGE * n)), n - max(2, int(_EDGE * n))
        self.x_N = x_N
        self.places_K = x_N[np.unique(np.linspace(first, last - 1, min(_PLACES, last - first)).astype(np.int64))]
        slope_N = x_N - x_N.mean()
        self.slope_N = slope_N / np.linalg.norm(slope_N)
        hinges_KN = np.maximum(x_N - self.places_K[:, None], 0.0)
        rest_KN = hinges_KN - hinges_KN.mean(axis=1, keepdims=True)
        # orthogonal to straight lines, so that one matmul gives the gains of all candidates and resamples
        rest_KN -= (rest_KN @ self.slope_N)[:, None] * self.slope_N
        self.size_K = np.linalg.norm(rest_KN, axis=1)
        self.unit_KN = rest_KN / self.size_K[:, None]

    def line(self, y_N: Floats) -> Floats:
        """Return the fitted values of the best straight line."""
        return np.asarray(y_N.mean() + (y_N @ self.slope_N) * self.slope_N, dtype=np.float64)

    def segments(self, y_N: Floats) -> Floats:
        """Return the values of the two segments that fit ``y_N`` with the smallest squared error."""
        unit_N = self.unit_KN[self._best(y_N[None])[0]]
        return np.asarray(self.line(y_N) + (y_N @ unit_N) * unit_N, dtype=np.float64)

    def gain(self, y_BN: Floats) -> Floats:
        """Return the fraction of the straight line's squared error that the best fit with a bend removes, for each
        curve (row of ``y_BN``).
        """
        removed_B = np.square(y_BN @ self.unit_KN.T).max(axis=1)
        total_B = np.square(y_BN - y_BN.mean(axis=1, keepdims=True)).sum(axis=1)
        error_B = total_B - np.square(y_BN @ self.slope_N)
        noisy_B = error_B > 1e-12 * total_B  # a smaller error is only rounding error
        gain_B: Floats = np.divide(removed_B, error_B, out=np.zeros_like(error_B), where=noisy_B)
        return gain_B

    def places(self, y_BN: Floats) -> Floats:
        """Return, for each curve (row of ``y_BN``), the x of the bend with the smallest squared error."""
        return self.places_K[self._best(y_BN)]

    def slope(self, y_BN: Floats) -> Floats:
        """Return the slope of the straight line for each row."""
        return np.asarray(y_BN @ self.slope_N / (self.slope_N @ self.x_N), dtype=np.float64)

    def slopes(self, y_BN: Floats) -> tuple[Floats, Floats]:
        """Return the slopes before and after the bend of each curve ``y_BN[b]``; the bend is the candidate with the
        smallest squared error."""
        at_B = self._best(y_BN)
        change_B = np.einsum("bn,bn->b", y_BN, self.unit_KN[at_B]) / self.size_K[at_B]
        hinges_BN = np.maximum(self.x_N - self.places_K[at_B, None], 0.0)
        early_B = self.slope(y_BN - change_B[:, None] * hinges_BN)
        return early_B, early_B + change_B

    def _best(self, y_BN: Floats) -> Ints:
        return np.asarray(np.square(y_BN @ self.unit_KN.T).argmax(axis=1), dtype=np.int64)


def _p_value(fit: _Candidates, y_N: Floats, resamples: int, seed: int) -> float:
    """Return the p-value of the observed bend: the share of simulated curves (a straight line plus resampled noise)
    with a bend at least as strong.
    """
    # use the residuals of the two segments, since the straight line's residuals would contain the bend as noise
    straight_BN = fit.line(y_N) + noise(y_N - fit.segments(y_N), 4, resamples, seed)
    as_much = int((fit.gain(straight_BN) >= fit.gain(y_N[None])).sum())
    # the observed curve counts as one of the resampled curves, so the p-value is never 0
    return (1 + as_much) / (1 + resamples)
