"""Intervals by resampling problems: how far a number would move on other problems of the same kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_CHUNK = 2_000_000  # drawn indices held at once: 16 MB


class Interval(NamedTuple):
    """A mean over problems with its interval.

    Attributes:
        value: the mean; NaN if no problem has a value.
        low, high: ends of the interval; NaN if none was computed.
        problems: how many problems the three numbers stand on.
    """

    value: float
    low: float
    high: float
    problems: int

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval lies on one side of 0; False where there is none."""
        return self.low > 0 or self.high < 0


def bootstrap_mean(values_P: ArrayLike, resamples: int = 2000, seed: int = 0, level: float = 0.95) -> Interval:
    """Mean over problems with its percentile bootstrap interval.

    ``resamples`` times, as many problems as there are get drawn with replacement; the interval holds the middle
    ``level`` of the resampled means. The samples *within* a problem are not resampled: their noise is already in the
    spread of the values. The interval covers the choice of problems, not the seed of a training run.

    Degenerate cases: NaN values are left out, and ``problems`` counts the rest. No interval (NaN) for
    ``resamples = 0`` and for fewer than two problems. If all values are equal the interval has no width, which for few
    problems is too good to be true, as percentile intervals are a little narrow below about 30 problems.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.

    >>> bootstrap_mean([1.0, 0.0, 1.0, 0.0, float("nan")])
    Interval(value=0.5, low=0.0, high=1.0, problems=4)
    >>> bootstrap_mean([1.0])
    Interval(value=1.0, low=nan, high=nan, problems=1)
    """
    all_P = np.asarray(values_P, dtype=np.float64)
    known_P = all_P[~np.isnan(all_P)]
    problems = len(known_P)
    value = float(known_P.mean()) if problems else np.nan
    if problems < 2 or not resamples:
        return Interval(value, np.nan, np.nan, problems)
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // problems)
    draws = (
        generator.integers(problems, size=(min(rows, resamples - start), problems))
        for start in range(0, resamples, rows)
    )
    means_B = np.concatenate([known_P[drawn_BP].mean(axis=1) for drawn_BP in draws])
    low, high = np.quantile(means_B, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), problems)


def bootstrap_difference(
    before_P: ArrayLike, after_P: ArrayLike, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Mean of ``after - before`` on the same problems, in the same order, with its interval.

    Pairing removes the spread between easy and hard problems, which is most of the width of either mean alone: two
    overlapping intervals can still differ for certain. A problem that is NaN on either side is left out. Otherwise as
    :func:`bootstrap_mean`.

    Raises:
        ValueError: the two have different shapes.

    >>> bootstrap_difference([0.0, 0.5, 1.0], [0.25, 0.75, 1.25])
    Interval(value=0.25, low=0.25, high=0.25, problems=3)
    """
    first_P, second_P = np.asarray(before_P, dtype=np.float64), np.asarray(after_P, dtype=np.float64)
    if first_P.shape != second_P.shape:
        raise ValueError(f"a paired difference needs the same problems, not {first_P.shape} and {second_P.shape}")
    return bootstrap_mean(second_P - first_P, resamples, seed, level)
