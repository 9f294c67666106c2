"""Shared functions of the checks that look for problems in a run. They report missing data, and estimate proportions
and changes over a run.

A check reports a problem if the effect is significant and large enough to act on. Intervals extend three standard
errors to each side. With 95 % intervals, the roughly ten checks together would report a problem in every second healthy
run.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.measure import Interval

Z = 3.0  # number of standard errors on each side, which chance exceeds once in 370 cases
LEVEL = 2 * NormalDist().cdf(Z) - 1
MIN_STEPS = 20  # with fewer steps, a tenth of the steps is less than two steps, too few for a trend


class Lacking(Exception):  # noqa: N818  not an error: most frameworks' files lack some data
    """Raised if a check cannot be run; the message names the missing data."""


class FirstAndLast(NamedTuple):
    """A metric at the beginning and at the end of a run.

    Attributes:
        before: mean over the first steps.
        after: mean over the last steps.
        low, high: bounds of the interval of the difference.
    """

    before: float
    after: float
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.after - self.before


def change(values_S: ArrayLike, parts: int = 4) -> FirstAndLast:
    r"""Divide the steps into ``parts`` equal parts; return the means over the first and the last part, and the interval
    of their difference.

    The noise of a step is estimated from differences of neighbouring steps, :math:`\hat\sigma^2 = \frac{1}{2(S-1)}
    \sum_s (x_{s+1} - x_s)^2`. A trend over the run hardly affects :math:`\hat\sigma`, because the policy changes little
    from one step to the next. The noise of different steps is independent, because each step draws new samples. The
    difference of two means over :math:`m` steps has the standard error :math:`\hat\sigma \sqrt{2/m}`.

    Degenerate cases: steps whose value is NaN are excluded. With fewer than two steps, all four numbers are NaN. If all
    values are equal, the interval has zero width.

    Source: von Neumann 1941, "Distribution of the ratio of the mean square successive difference to the variance".

    >>> change([1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0])[:2]
    (1.0, 3.0)
    """
    values = np.asarray(values_S, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return FirstAndLast(math.nan, math.nan, math.nan, math.nan)
    m = max(1, min(len(values) // 2, max(3, len(values) // parts)))
    before, after = float(values[:m].mean()), float(values[-m:].mean())
    error = Z * math.sqrt(float((np.diff(values) ** 2).mean()) / m)
    return FirstAndLast(before, after, after - before - error, after - before + error)


class Level(NamedTuple):
    """A metric at the end of a run, with its interval."""

    value: float
    low: float
    high: float


def level(values_S: ArrayLike) -> Level:
    """Return the mean over the last quarter of the steps, with its interval.

    The standard error and the result for very few steps are as in :func:`change`.

    >>> level([5.0, 1.0, 1.0, 1.0]).value
    1.0
    """
    seen = change(values_S)
    error = (seen.high - seen.low) / 2 / math.sqrt(2)  # one mean, not the difference of two
    return Level(seen.after, seen.after - error, seen.after + error)


class Proportion(NamedTuple):
    """The proportion ``hits / of``, with its interval."""

    value: float
    low: float
    high: float
    hits: int
    of: int


def numbers(name: str, result: Proportion | FirstAndLast | Interval) -> dict[str, float]:
    """Return a value and the bounds of its interval, with the keys ``name``, ``name_low`` and ``name_high``."""
    return {name: result.value, f"{name}_low": result.low, f"{name}_high": result.high}


def share(hits_C: ArrayLike, of_C: ArrayLike, problems_C: ArrayLike | None = None) -> Proportion:
    r"""Return the pooled proportion with a cluster-robust interval, since rollouts of one problem are correlated.

    ``problems_C`` contains the problem of each row. It is needed if a problem can have several rows, for example groups
    in several steps. The rows of a problem then form one cluster.

    The variance of a ratio of sums over clusters is :math:`v = \frac{C}{C-1} \sum_c (k_c - p n_c)^2 / N^2`. The
    interval is Wilson's with the effective sample size :math:`p(1-p)/v`, which is at most :math:`N`.

    Degenerate cases: if there are no observations, all values are NaN. With only one cluster, or with a proportion of 0
    or 1, the correlation within clusters is unknown, and each cluster counts as one observation.

    Source: Wilson 1927; Cochran, "Sampling Techniques", section 9A.

    >>> s = share([0] * 50 + [8] * 50, [8] * 100)
    >>> s.hits, s.of, round(s.low, 2), round(s.high, 2)
    (400, 800, 0.36, 0.64)
    """
    hits, of = (np.asarray(values, dtype=np.float64) for values in (hits_C, of_C))
    if problems_C is not None:
        _, of_whom = np.unique(np.asarray(problems_C), return_inverse=True)
        hits, of = (np.bincount(of_whom, values).astype(np.float64) for values in (hits, of))
    hits, of = hits[of > 0], of[of > 0]
    clusters, total = len(of), float(of.sum())
    if not clusters:
        return Proportion(math.nan, math.nan, math.nan, 0, 0)
    p = float(hits.sum()) / total
    spread = float(((hits - p * of) ** 2).sum()) * clusters / max(clusters - 1, 1)
    known = clusters > 1 and 0 < p < 1 and spread > 0
    low, high = wilson(p, min(total, p * (1 - p) * total**2 / spread) if known else clusters)
    return Proportion(p, low, high, int(hits.sum()), int(total))


def wilson(p: float, n: float, z: float = Z) -> tuple[float, float]:
    r"""Return Wilson's score interval of a proportion ``p`` of ``n`` independent trials, at ``z`` standard errors.

    .. math:: \frac{p + z^2/2n \pm z \sqrt{p (1 - p)/n + z^2/4n^2}}{1 + z^2/n}

    Unlike in SciPy, ``n`` need not be an integer, since an effective sample size is rarely an integer.

    >>> [round(end, 3) for end in wilson(0.5, 91)], round(wilson(0.0, 9)[1], 3)
    ([0.35, 0.65], 0.5)
    """
    z2 = z**2 / n
    middle, reach = p + z2 / 2, math.sqrt(z2 * p * (1 - p) + z2**2 / 4)
    low, high = (middle - reach) / (1 + z2), (middle + reach) / (1 + z2)
    return 0.0 if p == 0 else low, 1.0 if p == 1 else high  # exact, without rounding error


def percent(value: float) -> str:
    """Format a share for use in a sentence.

    >>> percent(0.123), percent(0.0123), percent(float("nan"))
    ('12 %', '1.2 %', 'an unknown share')
    """
    if math.isnan(value):
        return "an unknown share"
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.1f} %"
