"""What drawing several responses gives: avg@n, and the best of k by a score.

Their relatives live elsewhere: pass@k and pass^k in :mod:`outrider.measure.passk`, majority@n (cons@n) in
:mod:`outrider.measure.majority`, means over problems and differences with intervals in
:mod:`outrider.measure.bootstrap`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.passk import pass_at_k


def avg_at_n(n: ArrayLike, c: ArrayLike) -> Floats:
    """Mean success of the ``n`` samples, per problem: pass@1, by another name.

    Every problem weighs the same in a mean over problems, however many samples it has; the share of successes among
    all samples is another number where ``n`` differs. NaN where ``n = 0``. Errors as in :func:`pass_at_k`.

    >>> avg_at_n(n=[4, 2, 0], c=[1, 2, 0]).tolist()
    [0.25, 1.0, nan]
    """
    return pass_at_k(n, c, 1)


def best_of_k(scores_G: ArrayLike, k: int, values_G: ArrayLike | None = None) -> float:
    r"""Expected worth of the best-scored of ``k`` responses to one problem, without bias from ``n >= k`` of them.

    .. math:: \sum_{i=k}^{n} \frac{\binom{i-1}{k-1}}{\binom{n}{k}}\; v_{(i)}, \qquad s_{(1)} \le \dots \le s_{(n)}

    the mean over all k-subsets of the ``n`` responses of the value of the one whose score is highest: the ``i``-th
    lowest is the best of exactly :math:`\binom{i-1}{k-1}` subsets. ``values_G`` is what the chosen response is worth
    (its success, say, where the score is that of a ranker); None: the score itself, so that the result is an expected
    maximum. For scores of 0 and 1 that is pass@k.

    Ties are resolved in expectation: of several responses that share a subset's highest score each is chosen with the
    same chance, so every member of a tie counts with the mean value of the tie.

    Degenerate cases: a score of NaN (unscorable) leaves its response out; NaN where fewer than ``k`` scores remain,
    never the best of fewer; NaN where a value is NaN that could be chosen. Infinite scores rank as they should; as
    values they give what they give in a mean.

    Raises:
        ValueError: ``k < 1``, or scores and values differ in shape or are not one-dimensional.

    Source: Nakano et al. 2021 (WebGPT), arXiv 2112.09332, appendix I; the rule for ties is ours.

    >>> round(best_of_k([0.1, 0.5, 0.3], k=2), 4)  # pairs: 0.5, 0.3, 0.5
    0.4333
    >>> best_of_k([7.0, 7.0, 1.0], k=2, values_G=[1, 0, 0])  # every pair holds a 7, of which one in two is right
    0.5
    """
    score_G = np.asarray(scores_G, dtype=np.float64)
    value_G = score_G if values_G is None else np.asarray(values_G, dtype=np.float64)
    if k < 1:
        raise ValueError(f"the best of k needs k >= 1, not {k}")
    if score_G.ndim != 1 or score_G.shape != value_G.shape:
        raise ValueError(f"scores and values are of one problem, not of shapes {score_G.shape} and {value_G.shape}")
    known_G = ~np.isnan(score_G)
    score_G, value_G = score_G[known_G], value_G[known_G]
    if len(score_G) < k:
        return float("nan")
    _, tie_G, size_S = np.unique(score_G, return_inverse=True, return_counts=True)  # one S per distinct score
    chance_S = np.add.reduceat(_chances(len(score_G), k), np.cumsum(size_S) - size_S)
    possible_S = chance_S > 0  # 0 * inf would be NaN
    value_S = np.bincount(tie_G, value_G) / size_S
    return float(chance_S[possible_S] @ value_S[possible_S])


def _chances(n: int, k: int) -> Floats:
    """Probability that the i-th lowest of ``n`` is the best of ``k``, i = 1 … n: a product of ratios from the top."""
    i = np.arange(n, 0, -1, dtype=np.float64)
    ratios = np.maximum(i[:-1] - k, 0.0) / np.maximum(i[:-1] - 1, 1.0)  # of the chance of i - 1 to that of i
    return np.cumprod(np.concatenate([[k / n], ratios]))[::-1]
