"""Estimates G-Pass@k, the probability that at least a given share of k samples is correct."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.passk import counts

_ROUNDING = 1e-9  # tolerance for tau * k, which rounding can make slightly larger than a whole number
_HALF = 0.5  # lower limit of tau in mG-Pass@k


def g_pass_at_k(n: ArrayLike, c: ArrayLike, k: int, tau: float) -> Floats:
    r"""Return, for each problem, the probability that at least ``ceil(tau k)`` of ``k`` samples succeed.

    .. math:: \text{G-Pass@}k_\tau = \sum_{j=\lceil \tau k \rceil}^{c} \binom{c}{j} \binom{n-c}{k-j} \Big/ \binom{n}{k}

    This is the share of all k-subsets of the ``n`` samples that contain at least ``ceil(tau k)`` of the ``c``
    successes. The estimate is unbiased for every ``k <= n``. A benchmark reports the mean over problems. G-Pass@k
    equals pass@k for ``tau <= 1/k``, and pass^k for ``tau = 1``. ``n`` and ``c`` broadcast.

    Degenerate cases: the result is NaN where ``n < k``, and 0 where ``c < ceil(tau k)``. If ``tau k`` exceeds a whole
    number by at most 1e-9, ``ceil`` ignores the excess as a rounding error.

    Raises:
        ValueError: ``k < 1``, or ``0 < tau <= 1`` does not hold, or ``0 <= c <= n`` does not hold.

    Source: Liu et al. 2024, arXiv 2412.13147.

    >>> g_pass_at_k(n=4, c=[0, 2, 3, 4], k=2, tau=1.0).round(3).tolist()
    [0.0, 0.167, 0.5, 1.0]
    >>> g_pass_at_k(n=[4, 3], c=[2, 3], k=4, tau=0.5).tolist()
    [1.0, nan]
    """
    if not 0 < tau <= 1:
        raise ValueError(f"G-Pass@k needs 0 < tau <= 1, not {tau}")
    return _at_least(n, c, k)[..., math.ceil(tau * k - _ROUNDING)]


def mg_pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    r"""Return mG-Pass@k, the mean of G-Pass@k over tau from 0.5 to 1, for each problem.

    .. math:: \text{mG-Pass@}k = 2 \int_{0.5}^{1} \text{G-Pass@}k_\tau \, d\tau

    G-Pass@k is a step function of tau, so its mean is computed exactly. Liu et al. instead define mG-Pass@k as ``2/k``
    times the sum of G-Pass@k at tau = ``i/k``, for ``i`` from ``k/2 + 1`` (rounded up) to ``k``. For even ``k``, their
    sum equals the mean. For odd ``k``, their sum omits the interval from tau = 0.5 to ``(k + 1)/(2k)``, so it is 0 for
    ``k = 1``. Our mean includes this interval, so mG-Pass@1 equals pass@1.

    Arguments and errors are the same as in :func:`g_pass_at_k`, and the result is NaN where ``n < k``.

    Source: Liu et al. 2024, arXiv 2412.13147.

    >>> mg_pass_at_k(n=4, c=[0, 2, 4], k=2).round(3).tolist()
    [0.0, 0.167, 1.0]
    """
    at_least_PK = _at_least(n, c, k)
    ends = np.clip(np.arange(k + 1) / k, _HALF, 1.0)  # ends of the steps: step i covers tau in ((i - 1)/k, i/k]
    return np.asarray(at_least_PK[..., 1:] @ np.diff(ends) / (1 - _HALF))


def _at_least(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Return the probabilities of at least ``m`` successes in ``k`` draws without replacement, for ``m`` from 0 to
    ``k``.

    The distribution of the number of successes is updated after each draw. Every factor is in [0, 1] and every sum has
    non-negative terms, so there is neither overflow nor cancellation.
    """
    all_P = counts(n, c, k)
    # compute each distinct pair (n, c) only once, since many problems have equal counts
    distinct, place_P = np.unique(np.stack([values_P.ravel() for values_P in all_P]), axis=1, return_inverse=True)
    n_P, c_P = distinct
    exactly_PK = np.zeros((*n_P.shape, k + 1))
    exactly_PK[..., 0] = 1.0
    found_K = np.arange(k + 1)
    for drawn in range(k):
        left_P = np.maximum(n_P - drawn, 1.0)[..., None]  # below 1 only where n < k, which becomes NaN
        success_PK = np.clip((c_P[..., None] - found_K) / left_P, 0.0, 1.0)
        failure_PK = np.clip((n_P[..., None] - c_P[..., None] - (drawn - found_K)) / left_P, 0.0, 1.0)
        more_PK = exactly_PK * success_PK
        exactly_PK *= failure_PK
        exactly_PK[..., 1:] += more_PK[..., :-1]
    at_least_PK = np.minimum(np.cumsum(exactly_PK[..., ::-1], axis=-1)[..., ::-1], 1.0)
    at_least_PK[n_P < k] = np.nan
    return np.asarray(at_least_PK[place_P.ravel()].reshape(*all_P[0].shape, k + 1))
