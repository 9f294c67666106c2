"""Estimates the effect of a token: the success rate if the token is kept, minus the rate if it is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.groups import Label, Profile, means_by_group
from outrider.measure.ragged import quantile_groups

EDGES = (0.2, 0.8)  # edges of the relative-position groups, and of the quantile groups


def effects(replaced_successes_N: ArrayLike, kept_successes_N: ArrayLike, k: ArrayLike) -> Floats:
    r"""Return the effect of each replaced token on success, in [-1, 1].

    .. math:: I_n = \frac{\text{kept}_n}{k} - \frac{\text{replaced}_n}{k}

    The effect is positive if the original token helped. The estimate is unbiased for every k. Its standard error is up
    to :math:`\sqrt{1 / (2k)}`, so report means over many tokens, not the effects of individual tokens. The mean
    *absolute* effect is mostly noise (see :func:`squared_effects`). The number of continuations ``k`` may differ
    between positions.

    Degenerate cases: the effect is NaN if a count is NaN because a continuation could not be verified.

    Raises:
        ValueError: ``k < 1``, or a count is not between 0 and k.

    Source: STILL report, arXiv 2508.07534, equations 5 and 6.

    >>> effects([1, 4, 0], [3, 4, float("nan")], k=4).tolist()
    [0.5, 0.0, nan]
    """
    replaced_N, kept_N, k_N = _counts(replaced_successes_N, kept_successes_N, k)
    return (kept_N - replaced_N) / k_N


def squared_effects(replaced_successes_N: ArrayLike, kept_successes_N: ArrayLike, k: ArrayLike) -> Floats:
    r"""Return the squared effect of each replaced token on success (:func:`effects`), corrected for sampling noise. The
    corrected squares are unbiased estimates, and individual estimates may be negative.

    .. math:: \widehat{I_n^2} = \hat I_n^2 - \frac{\hat p (1 - \hat p) + \hat q (1 - \hat q)}{k - 1}

    Here, :math:`\hat p` and :math:`\hat q` are the success rates with the kept and with the replaced token. Effects of
    both signs cancel in a mean, but squares do not. If no token matters, the expected corrected square is 0, while the
    expected :math:`\hat I_n^2` is positive. To get the typical effect size of a group of tokens, take the mean of their
    corrected squares, and then the square root.

    Degenerate cases: the result is NaN for ``k = 1``, where noise and effect cannot be distinguished. Other cases are
    as in :func:`effects`.

    >>> squared_effects([0, 2], [4, 2], k=4).round(3).tolist()
    [1.0, -0.167]
    """
    replaced_N, kept_N, k_N = _counts(replaced_successes_N, kept_successes_N, k)
    p_N, q_N = kept_N / k_N, replaced_N / k_N
    spread_N = p_N * (1 - p_N) + q_N * (1 - q_N)
    noise_N = np.divide(spread_N, k_N - 1, out=np.full_like(spread_N, np.nan), where=k_N > 1)
    return np.square(p_N - q_N) - noise_N


def by_position(effects_N: ArrayLike, relative_N: ArrayLike, responses_N: ArrayLike) -> Profile:
    """Return the mean effect by relative position in [0, 1), in three groups separated by ``EDGES`` (0.2 and 0.8).

    ``responses_N`` is the response to which each position belongs. NaN effects and NaN positions do not enter the
    means; ``excluded`` in the result is their number.

    Source: STILL report, Figure 6(b).

    >>> found = by_position([0.5, 0.1, 0.3], [0.1, 0.9, 0.0], [0, 0, 1])
    >>> found.groups, found["below 0.2"].value, found["from 0.8"].value
    (('below 0.2', '0.2 to 0.8', 'from 0.8'), 0.4, 0.1)
    """
    at_N = np.asarray(relative_N, dtype=np.float64)
    groups_N = np.where(np.isnan(at_N), -1, np.searchsorted(EDGES, at_N, side="right"))
    low, high = EDGES
    return means_by_group(effects_N, groups_N, responses_N, [f"below {low}", f"{low} to {high}", f"from {high}"])


def by_entropy(effects_N: ArrayLike, entropies_N: ArrayLike, responses_N: ArrayLike) -> Profile:
    """Return the mean effect of the replaced tokens for each of three groups: the 20 % of positions with the lowest
    token entropy, the middle 60 %, and the 20 % with the highest.

    >>> [mean.value for mean in by_entropy([0.0, 0.2, 0.4, 0.4, 0.7], [1, 2, 3, 4, 5], [0, 0, 1, 1, 1]).means]
    [0.0, 0.3333333333333333, 0.7]
    """
    return means_by_group(effects_N, quantile_groups(entropies_N, EDGES), responses_N, quantile_labels(EDGES))


def by_perplexity(effects_N: ArrayLike, perplexities_N: ArrayLike, responses_N: ArrayLike) -> Profile:
    """Return the mean effect of the replaced tokens for each of three groups of *responses*: the 20 % with the lowest
    perplexity, the middle 60 %, and the 20 % with the highest.

    ``perplexities_N`` repeats the perplexity of a response for each of its positions. All responses have equal weights
    in the quantiles, regardless of how many positions they have.

    Raises:
        ValueError: positions of one response have different perplexities.

    Source: STILL report, arXiv 2508.07534, Figure 5(b).

    >>> found = by_perplexity([0.0, 0.2, 0.5], [1.1, 1.1, 3.0], [7, 7, 9])
    >>> [(label, mean.value) for label, mean in zip(found.groups, found.means) if mean.n]
    [('lowest 20 %', 0.1), ('20 to 80 %', 0.5)]
    """
    perplexity_N = np.asarray(perplexities_N, dtype=np.float64)
    _, first_R, response_N = np.unique(np.asarray(responses_N), return_index=True, return_inverse=True)
    perplexity_R = perplexity_N[first_R]
    if not np.array_equal(perplexity_R[response_N], perplexity_N, equal_nan=True):
        raise ValueError("perplexities must be the same at all positions of a response")
    groups_N = quantile_groups(perplexity_R, EDGES)[response_N]
    return means_by_group(effects_N, groups_N, responses_N, quantile_labels(EDGES))


def quantile_labels(edges: Sequence[float]) -> list[Label]:
    """Return the names of the quantile groups that the edges separate.

    >>> quantile_labels((0.2, 0.8))
    ['lowest 20 %', '20 to 80 %', 'highest 20 %']
    """
    middle = [f"{100 * a:g} to {100 * b:g} %" for a, b in pairwise(edges)]
    return [f"lowest {100 * edges[0]:g} %", *middle, f"highest {100 - 100 * edges[-1]:g} %"]


def _counts(replaced_N: ArrayLike, kept_N: ArrayLike, k: ArrayLike) -> tuple[Floats, Floats, Floats]:
    given = (np.asarray(values, dtype=np.float64) for values in (replaced_N, kept_N, k))
    replaced, kept, samples = np.broadcast_arrays(*given)
    if not (samples >= 1).all():
        raise ValueError("k must be at least 1, one continuation per token")
    if (replaced < 0).any() or (kept < 0).any() or (replaced > samples).any() or (kept > samples).any():
        raise ValueError("numbers of successful continuations must be from 0 to k")
    return replaced, kept, samples
