"""Ranks, and Spearman's correlation: that of the ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats


def ranks(values_N: ArrayLike) -> Floats:
    """Ranks from 1, the smallest first; equal values share the mean of theirs.

    Degenerate cases: no values have no ranks. NaN is for the caller to leave out.

    >>> ranks([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _, tie_N, size_S = np.unique(np.asarray(values_N), return_inverse=True, return_counts=True)  # S: distinct values
    return np.asarray((np.cumsum(size_S) - (size_S - 1) / 2)[tie_N], dtype=np.float64)


def spearman(x_N: ArrayLike, y_N: ArrayLike) -> float:
    r"""Correlation of the ranks, in [-1, 1]; NaN where one side is constant or empty.

    Twice a rank is a whole number, so a constant has no spread at all, not one of rounding.

    Source: Spearman 1904, American Journal of Psychology 15.

    >>> round(spearman([1, 2, 3, 4], [10, 20, 20, 40]), 4), spearman([1, 2], [5, 5])
    (0.9487, nan)
    """
    across_N, up_N = (ranks_N - (len(ranks_N) + 1) / 2 for ranks_N in (ranks(x_N), ranks(y_N)))
    spread = np.sqrt((across_N @ across_N) * (up_N @ up_N))
    return float(across_N @ up_N / spread) if spread > 0 else np.nan
