"""Wilson's interval of a share."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats


def wilson(successes: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    r"""Ends of Wilson's interval for a share of ``n`` independent trials.

    .. math:: \frac{\hat p + z^2/2n \pm z \sqrt{\hat p (1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Unlike the share plus and minus its standard error it stays within [0, 1] and has a width at 0 and 1. NaN where
    ``n = 0``.

    Source: Wilson 1927, Journal of the American Statistical Association 22.

    >>> [ends.round(3).tolist() for ends in wilson([0, 5], [10, 10])]
    [[0.0, 0.237], [0.278, 0.763]]
    """
    trials = np.asarray(n, dtype=np.float64)
    trials = np.where(trials > 0, trials, np.nan)
    share = np.asarray(successes, dtype=np.float64) / trials
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2 / trials
    middle, reach = share + z2 / 2, np.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    low, high = (middle - reach) / (1 + z2), (middle + reach) / (1 + z2)
    return np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)  # which rounding would miss by a bit
