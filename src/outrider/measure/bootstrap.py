"""Computes bootstrap intervals over problems, which show how much a metric would vary on other problems of the same
kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outrider.arrays import Floats

LEVEL = 0.95  # confidence level of all intervals
_CHUNK = 2_000_000  # maximum number of drawn indices in memory at once (16 MB)


class Interval(NamedTuple):
    """A mean over problems with its confidence interval.

    Attributes:
        value: the mean of the problems' values; NaN if no problem has a value.
        low, high: ends of the interval; NaN if no interval was computed.
        problems: number of distinct problems from which the mean and its interval are computed.
    """

    value: float
    low: float
    high: float
    problems: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0; False if there is no interval."""
        return self.low > 0 or self.high < 0


def bootstrap_mean(
    values_P: ArrayLike,
    resamples: int = 2000,
    seed: int = 0,
    problems_P: ArrayLike | None = None,
) -> Interval:
    """Return the mean over problems with its percentile bootstrap interval.

    The data are resampled ``resamples`` times. Each time, problems are drawn with replacement, as many as there are in
    the data. The interval contains the middle 95 % of the resampled means. The samples *within* a problem are not
    resampled, because the variation of values between problems already includes sampling noise. The interval accounts
    for the choice of problems, but not for the seed of a training run.

    If problems have several values, for example one per training step, ``problems_P`` names the problem of each value.
    The values of one problem are correlated, so they are always drawn together. The mean of a resample is over all
    values in the resample.

    Degenerate cases: NaN values are excluded. The result's ``problems`` counts only problems with a value other than
    NaN. The interval is NaN for ``resamples = 0`` or fewer than two problems. If all values are equal, the interval has
    width 0, which is too narrow; docs/intervals.md shows the simulated coverage in this and other cases.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13; cluster bootstrap: Davison and
    Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8.

    Raises:
        ValueError: ``values_P`` and ``problems_P`` differ in length.

    >>> bootstrap_mean([1.0, 0.0, 1.0, 0.0, float("nan")])
    Interval(value=0.5, low=0.0, high=1.0, problems=4)
    >>> bootstrap_mean([1.0])
    Interval(value=1.0, low=nan, high=nan, problems=1)
    >>> bootstrap_mean([1.0, 1.0, 0.0, 0.0], problems_P=["a", "a", "b", "b"]).problems
    2
    """
    all_P = np.asarray(values_P, dtype=np.float64)
    there_P = ~np.isnan(all_P)
    known_P = all_P[there_P]
    value = float(known_P.mean()) if len(known_P) else np.nan
    sums_C, counts_C = known_P, np.ones(len(known_P))
    if problems_P is not None:
        sums_C, counts_C = _by_problem(known_P, np.asarray(problems_P), there_P)
    problems = len(sums_C)
    if problems < 2 or not resamples:
        return Interval(value, np.nan, np.nan, problems)
    generator = np.random.default_rng(seed)
    # draw in chunks to save memory, since all draws together are resamples x problems numbers. All chunks use the same
    # generator in order, so the draws do not depend on the chunk size
    rows = max(1, _CHUNK // problems)
    draws = (
        generator.integers(problems, size=(min(rows, resamples - start), problems))
        for start in range(0, resamples, rows)
    )
    means_B = np.concatenate([sums_C[drawn_BC].sum(axis=1) / counts_C[drawn_BC].sum(axis=1) for drawn_BC in draws])
    return Interval(value, *middle(means_B), problems)


def middle(draws_B: Floats) -> tuple[float, float]:
    """Return the ends of the middle 95 % of the draws. NaN draws are excluded. The ends are NaN if all draws are NaN.

    >>> [round(end, 6) for end in middle(np.arange(201.0))]
    [5.0, 195.0]
    """
    known_B = draws_B[~np.isnan(draws_B)]
    if not len(known_B):
        return np.nan, np.nan
    low, high = np.quantile(known_B, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _by_problem(known_P: Floats, problems_P: NDArray[Any], there_P: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the sum and the number of known values for each problem."""
    if problems_P.shape != there_P.shape:
        raise ValueError(f"problems_P must have one entry per value: {len(there_P)} values, {len(problems_P)} problems")
    _, of_P = np.unique(problems_P[there_P], return_inverse=True)
    return np.bincount(of_P, known_P).astype(np.float64), np.bincount(of_P).astype(np.float64)


def bootstrap_difference(before_P: ArrayLike, after_P: ArrayLike, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return the mean of ``after - before``, with its interval. Both arrays have the same problems in the same order.

    Pairing removes the variance between easy and hard problems, which causes most of the width of an unpaired interval.
    Therefore, two means with overlapping intervals can still differ significantly. A problem whose value is NaN in
    either array is excluded. Resampling and the interval work as in :func:`bootstrap_mean`.

    Raises:
        ValueError: the two arrays have different shapes.

    >>> bootstrap_difference([0.0, 0.5, 1.0], [0.25, 0.75, 1.25])
    Interval(value=0.25, low=0.25, high=0.25, problems=3)
    """
    first_P, second_P = np.asarray(before_P, dtype=np.float64), np.asarray(after_P, dtype=np.float64)
    if first_P.shape != second_P.shape:
        raise ValueError(
            f"a paired difference needs the same problems, not shapes {first_P.shape} and {second_P.shape}"
        )
    # resample the differences, since separate resamples of the two arrays would lose the pairing
    return bootstrap_mean(second_P - first_P, resamples, seed)
