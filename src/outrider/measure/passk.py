"""Estimates pass@k and pass^k without bias, from n >= k samples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    r"""Return, for each problem, the probability that at least one of ``k`` samples succeeds.

    .. math:: \text{pass@}k = 1 - \binom{n-c}{k} \Big/ \binom{n}{k}

    This is the share of all k-subsets of the ``n`` samples that contain at least one of the ``c`` successes. The
    estimate is unbiased for every ``k <= n``. A benchmark reports the mean over problems. ``n`` and ``c`` broadcast,
    and ``n`` may differ between problems.

    Degenerate cases: the result is NaN where ``n < k``, since there is no unbiased estimate. The result is exactly 0
    where ``c = 0``, and exactly 1 where fewer than ``k`` samples failed. The estimate never decreases with ``k`` or
    ``c``, even in floating point.

    Raises:
        ValueError: ``k < 1``, or ``0 <= c <= n`` does not hold.

    Source: Chen et al. 2021, arXiv 2107.03374, Eq. 1.

    >>> pass_at_k(n=[4, 4, 4, 3], c=[0, 1, 4, 3], k=2).tolist()
    [0.0, 0.5, 1.0, 1.0]
    >>> pass_at_k(n=[4, 3], c=[1, 3], k=4).tolist()
    [1.0, nan]
    """
    n_P, c_P = counts(n, c, k)
    return 1.0 - _all_marked(n_P, n_P - c_P, k)


def pass_power_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    r"""Return, for each problem, the probability that all ``k`` samples succeed (pass^k, reliability).

    .. math:: \text{pass}^k = \binom{c}{k} \Big/ \binom{n}{k}

    Arguments and errors are the same as in :func:`pass_at_k`, and the result is NaN where ``n < k``. The two metrics
    are equal for ``k = 1``.

    Source: Yao et al. 2024, arXiv 2406.12045.

    >>> pass_power_k(n=4, c=[4, 3, 1], k=2).tolist()
    [1.0, 0.5, 0.0]
    """
    return _all_marked(*counts(n, c, k), k)


def powers_of_two(n: int) -> tuple[int, ...]:
    """Return the values of k to report for ``n`` samples: 1, 2, 4, … and ``n`` itself. If there are no samples, the
    result is empty.

    >>> powers_of_two(8), powers_of_two(6), powers_of_two(0)
    ((1, 2, 4, 8), (1, 2, 4, 6), ())
    """
    powers = [2**i for i in range(n.bit_length()) if 2**i < n]
    return (*powers, n) if n > 0 else ()


def shown_ks(known: Iterable[int]) -> list[int]:
    """Return the values of k for a table of pass@k: the largest value in ``known``, and 1 and 8 if ``known`` contains
    them.

    >>> shown_ks([1, 2, 4, 8, 16]), shown_ks([1, 2, 4]), shown_ks([])
    ([1, 8, 16], [1, 4], [])
    """
    ks = set(known)
    return sorted(ks & {1, 8, max(ks, default=0)})


def _all_marked(n_P: Floats, marked_P: Floats, k: int) -> Floats:
    """Return the probability that ``k`` draws without replacement from ``n`` items are all marked; NaN where ``n < k``.

    The probability is a product of ratios in [0, 1]. Unlike binomial coefficients, the product cannot overflow. A ratio
    of 0 gives exactly 0, and further factors never increase the product.
    """
    result_P = np.where(n_P < k, np.nan, 1.0)
    # multiply ratios: binomial coefficients would overflow, and differences of their logarithms would have rounding
    # errors
    for drawn in range(k):
        left_P = np.maximum(n_P - drawn, 1.0)  # below 1 only where n < k: NaN
        result_P *= np.maximum(marked_P - drawn, 0.0) / left_P
    return result_P


def counts(n: ArrayLike, c: ArrayLike, k: int) -> tuple[Floats, Floats]:
    """Check the numbers of samples and successes per problem, and broadcast them to one shape.

    Raises:
        ValueError: ``k < 1``, or ``0 <= c <= n`` does not hold.
    """
    n_P, c_P = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(c, dtype=np.float64))
    if k < 1:
        raise ValueError(f"pass@k needs k >= 1, not {k}")
    if not ((c_P >= 0) & (c_P <= n_P)).all():
        raise ValueError("successes must be from 0 to samples for every problem")
    return n_P, c_P
