"""Computes intervals for a crossed design, in which every seed of a recipe is measured on the same problems."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import stdtrit  # type: ignore[import-untyped]

from outrider.arrays import Floats
from outrider.bench.results import Measured

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean over seeds, with its interval and the numbers of seeds and problems.

    Attributes:
        value: the mean; NaN if it is unknown.
        low, high: bounds of the 95 % interval; NaN if there is no interval.
        seeds: number of seeds. With one seed, the interval accounts only for the choice of problems.
        problems: number of problems.
        error: standard error of the mean; NaN if it is unknown.
    """

    value: float
    low: float
    high: float
    seeds: int
    problems: int
    error: float = math.nan

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies entirely on one side of 0; False if there is no interval."""
        return self.low > 0 or self.high < 0


def estimate(measured: Measured) -> Estimate:
    r"""Return the mean over seeds, with an interval that accounts for seeds, problems and their interaction.

    Let :math:`z_{sp}` be the value of seed s on problem p (a ratio of sums is first linearised, see :func:`_linear`):

    .. math:: z_{sp} = \mu + \alpha_s + \beta_p + \varepsilon_{sp}, \qquad
       \widehat{\mathrm{Var}}(\bar z) = \frac{A + B - C}{S P}

    Here S is the number of seeds and P the number of problems. A, B and C are the mean squares of a two-way analysis of
    variance: A of the seeds, B of the problems, C of the residual. If A or B is smaller than C, it is replaced by C,
    since a variance component cannot be negative. The interval uses Student's t with Satterthwaite's degrees of
    freedom. Problems are not nested in seeds, so resampling seeds and then problems within seeds would be wrong. A
    bootstrap that resamples seeds and problems independently would count the variance of the residual three times (see
    docs/bench.md).

    Degenerate cases: with one seed, the interval accounts only for problems. With one problem, or with a metric that
    has one value per run (such as seconds), the interval accounts only for seeds. With one seed and one problem there
    is no interval. A seed or problem without a known value (all its ``counts_SP`` are 0) is excluded.

    Source: Satterthwaite 1946, Biometrics Bulletin 2(6); the crossed random-effects layout as in Owen 2007,
    arXiv 0712.1111.

    >>> import numpy as np
    >>> found = estimate(Measured(np.array([[0.0, 1.0], [1.0, 1.0]]), np.ones((2, 2))))
    >>> found.value, round(found.error, 3), found.seeds, found.problems
    (0.75, 0.25, 2, 2)
    """
    return _estimate(_linear(measured))


def difference(before: Measured, after: Measured) -> Estimate:
    """Return the estimate of ``after - before``, paired by seed (row) and problem (column).

    A value that is unknown in ``before`` or ``after`` is excluded from both.

    Raises:
        ValueError: ``before`` and ``after`` have different shapes.
    """
    if before.totals_SP.shape != after.totals_SP.shape:
        raise ValueError("a paired difference needs the same seeds and problems in both sets")
    known_SP = (before.counts_SP > 0) & (after.counts_SP > 0)
    first, second = (_linear(Measured(m.totals_SP * known_SP, m.counts_SP * known_SP)) for m in (before, after))
    return _estimate(second - first)


def _linear(measured: Measured) -> Floats:
    """Linearise ratios of sums by the first-order delta method. For each seed, the mean of the returned values over
    problems is the sum of totals divided by the sum of counts. If all counts are 1, the returned values are the totals.
    """
    some_S, some_P = measured.counts_SP.any(axis=1), measured.counts_SP.any(axis=0)
    totals_SP, counts_SP = (part[some_S][:, some_P] for part in measured)
    if not totals_SP.size:
        return totals_SP
    ratio_S1 = totals_SP.sum(axis=1, keepdims=True) / counts_SP.sum(axis=1, keepdims=True)
    # first-order expansion: a problem with larger counts has more influence on its seed's ratio
    linear_SP: Floats = ratio_S1 + (totals_SP - ratio_S1 * counts_SP) / counts_SP.mean(axis=1, keepdims=True)
    return linear_SP


def _estimate(z_SP: Floats) -> Estimate:
    seeds, problems = z_SP.shape
    if not z_SP.size:
        return Estimate(math.nan, math.nan, math.nan, seeds, problems)
    value = float(z_SP.mean())
    variance, freedom = _variance(z_SP)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(variance) if variance else variance
    return Estimate(value, value - half, value + half, seeds, problems, math.sqrt(variance))


def _variance(z_SP: Floats) -> tuple[float, float]:
    """Return the variance of the mean of ``z_SP``, and the degrees of freedom of this variance. Both are NaN if
    ``z_SP`` contains only one number."""
    seeds, problems = z_SP.shape
    by_seed_S1, by_problem_P = z_SP.mean(axis=1, keepdims=True), z_SP.mean(axis=0)
    if seeds == 1 and problems == 1:
        return math.nan, math.nan
    if seeds == 1:
        return float(by_problem_P.var(ddof=1)) / problems, problems - 1
    if problems == 1:
        return float(by_seed_S1.var(ddof=1)) / seeds, seeds - 1
    residual_SP = z_SP - by_seed_S1 - by_problem_P + z_SP.mean()
    c = float((residual_SP**2).sum()) / ((seeds - 1) * (problems - 1))
    # a mean square below the residual's implies a negative variance component, which is set to 0
    a = max(problems * float(by_seed_S1.var(ddof=1)), c)
    b = max(seeds * float(by_problem_P.var(ddof=1)), c)
    total = a + b - c
    if total == 0:
        return 0.0, 1.0
    spread = a**2 / (seeds - 1) + b**2 / (problems - 1) + c**2 / ((seeds - 1) * (problems - 1))
    return total / (seeds * problems), total**2 / spread
