"""Resamples the noise of a training curve in blocks, because the noise of neighbouring steps is correlated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from outrider.arrays import Floats, Ints
from outrider.measure.bootstrap import middle


class IntervalBounds(NamedTuple):
    """A number with its interval. ``low`` and ``high`` are NaN if no interval was computed."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0; False if there is no interval."""
        return self.low > 0 or self.high < 0


NONE = IntervalBounds(np.nan, np.nan, np.nan)


def bounds(value: float, draws_B: Floats) -> IntervalBounds:
    """Return a value with the interval that contains the middle 95 % of its bootstrap draws; NaN draws are excluded."""
    return IntervalBounds(float(value), *middle(draws_B))


def autocorrelation(residuals_N: Floats) -> float:
    r"""Return the lag-1 autocorrelation, :math:`\sum_t e_t e_{t+1} / \sum_t e_t^2`, of residuals with mean 0.

    Degenerate cases: NaN for fewer than three residuals, or if all residuals are 0.

    >>> autocorrelation(np.array([1.0, 1.0, -1.0, -1.0])).__round__(3)
    0.25
    """
    total = float(residuals_N @ residuals_N)
    return float(residuals_N[:-1] @ residuals_N[1:]) / total if len(residuals_N) > 2 and total > 0 else np.nan


def block_length(residuals_N: Floats) -> int:
    r"""Return the number of consecutive residuals in a bootstrap block.

    .. math:: \ell = \Big\lceil \Big(\frac{2 \rho}{1 - \rho^2}\Big)^{2/3} n^{1/3} \Big\rceil

    with the lag-1 autocorrelation :math:`\rho` of the :math:`n` residuals. For a first-order autoregressive process,
    blocks of this length estimate the variance of the mean with the smallest error. The length is 1 (single residuals)
    if the autocorrelation is not positive, and at most a quarter of the number of residuals.

    Source: Carlstein 1986, "The use of subseries values for estimating the variance of a general statistic from a
    stationary sequence", Annals of Statistics 14.

    >>> block_length(np.array([1.0, -1.0, 1.0, -1.0])), block_length(np.repeat([1.0, -1.0], 50))
    (1, 25)
    """
    rho, n = autocorrelation(residuals_N), len(residuals_N)
    # `not rho > 0` rather than `rho <= 0`, so that NaN (too few residuals) also gives 1
    if not rho > 0:
        return 1
    # a limit, since the length goes to infinity as rho goes to 1
    rho = min(rho, 0.99)
    length = np.ceil((2 * rho / (1 - rho**2)) ** (2 / 3) * n ** (1 / 3))
    return int(max(1, min(length, n // 4)))


def block_indices(n: int, length: int, resamples: int, seed: int) -> Ints:
    """Draw overlapping blocks with replacement, and return the concatenated indices in an array of shape ``[resamples,
    n]``.

    >>> block_indices(4, 2, 1, seed=0).tolist()
    [[2, 3, 1, 2]]
    """
    generator = np.random.default_rng(seed)
    starts_BK = generator.integers(n - length + 1, size=(resamples, -(-n // length)))
    indices_BN = (starts_BK[:, :, None] + np.arange(length)).reshape(resamples, starts_BK.shape[1] * length)[:, :n]
    return indices_BN.astype(np.int64)


def noise(residuals_N: Floats, parameters: int, resamples: int, seed: int) -> Floats:
    """Resample residuals, and return an array of shape ``[resamples, n]``.

    Residuals of a fit of :math:`p` = ``parameters`` numbers to :math:`n` points are smaller than the noise by a factor
    of :math:`\\sqrt{(n - p) / n}`, so they are divided by this factor. The residuals are centred and drawn in blocks,
    whose length :func:`block_length` computes.
    """
    n = len(residuals_N)
    wide_N = (residuals_N - residuals_N.mean()) * np.sqrt(n / (n - parameters))
    return np.asarray(wide_N[block_indices(n, block_length(residuals_N), resamples, seed)], dtype=np.float64)
