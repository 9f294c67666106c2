"""Functions on the token values of many responses, stored in one flat array.

All token metrics use this layout. ``values_T`` is the concatenation of all responses, with one value per token. If a
response continues a prefix of another rollout, the prefix is excluded. ``lengths_R`` has the number of tokens of each
response, in the same order, and sums to ``len(values_T)``. A response without tokens has length 0 and keeps its index.
Arrays with the suffix ``_R`` have one entry per response. The number of responses may differ between problems.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Flags, Ints


def lengths_of(lengths_R: ArrayLike, tokens: int) -> Ints:
    """Check that the lengths sum to ``tokens``, and return the lengths as integers.

    Raises:
        ValueError: a length is negative, or the lengths do not sum to ``tokens``.

    >>> lengths_of([2, 0, 3], 5).tolist()
    [2, 0, 3]
    """
    known_R = np.asarray(lengths_R, dtype=np.int64)
    if known_R.ndim != 1 or (known_R < 0).any() or known_R.sum() != tokens:
        raise ValueError(f"lengths must be non-negative and add up to {tokens} tokens, not to {known_R.sum()}")
    return known_R


def owners(lengths_R: ArrayLike) -> Ints:
    """Return the response index of every token.

    >>> owners([2, 0, 3]).tolist()
    [0, 0, 2, 2, 2]
    """
    known_R = np.asarray(lengths_R, dtype=np.int64)
    return np.repeat(np.arange(len(known_R)), known_R)


def relative_bins(lengths_R: ArrayLike, bins: int, starts_R: ArrayLike = 0) -> Ints:
    r"""Return the relative-position bin of every token, with ``bins`` equal bins per response. The token at position t
    of a response with L tokens is in the bin

    .. math:: \lfloor t \cdot \mathrm{bins} / L \rfloor, \qquad t = 0, \ldots, L - 1

    If a response continues a prefix of another rollout, ``starts_R`` is the length of the prefix. This length is added
    to t and L, but tokens of the prefix are not in the result. A response with fewer tokens than ``bins`` leaves some
    bins empty. The token of a one-token response is in the first bin.

    Raises:
        ValueError: ``bins < 1``.

    >>> relative_bins([4, 2], bins=2).tolist(), relative_bins([2], bins=2, starts_R=[2]).tolist()
    ([0, 0, 1, 1, 0, 1], [1, 1])
    """
    if bins < 1:
        raise ValueError(f"relative positions need at least one bin, not {bins}")
    known_R = np.asarray(lengths_R, dtype=np.int64)
    start_R = np.broadcast_to(np.asarray(starts_R, dtype=np.int64), known_R.shape)
    first_R = np.cumsum(known_R) - known_R  # index of each response's first token
    place_T: Ints = np.arange(known_R.sum()) + np.repeat(start_R - first_R, known_R)
    return place_T * bins // np.repeat(start_R + known_R, known_R)


def quantile_groups(values_N: ArrayLike, edges: tuple[float, ...] = (0.2, 0.8)) -> Ints:
    """Return the quantile group of every value, from 0 (up to the first edge) to ``len(edges)`` (above the last edge).

    Equal values are always in the same group: all values that equal the quantile at an edge are in the group below the
    edge. The quantile at the edge 0.2, for example, is the smallest value x for which at least 20 % of the values are
    at most x. NaN values have group -1.

    Degenerate cases: if all values are equal, all are in group 0.

    Raises:
        ValueError: the edges do not increase within (0, 1).

    >>> quantile_groups([5, 1, 2, 3, 4], edges=(0.2, 0.8)).tolist()
    [2, 0, 1, 1, 1]
    >>> quantile_groups([1.0, 1.0, 2.0, float("nan")], edges=(0.5,)).tolist()
    [0, 0, 1, -1]
    """
    if not all(a < b for a, b in zip((0.0, *edges), (*edges, 1.0), strict=True)):
        raise ValueError(f"quantile edges must increase within (0, 1), not {edges}")
    all_N = np.asarray(values_N, dtype=np.float64)
    known_N = np.sort(all_N[~np.isnan(all_N)])
    if not len(known_N):
        return np.full(len(all_N), -1, dtype=np.int64)
    at = np.ceil(np.array(edges) * len(known_N) - 1e-9).astype(np.int64) - 1  # since 0.07 * 100 is slightly above 7
    groups_N = np.searchsorted(known_N[at], all_N, side="left").astype(np.int64)
    return np.where(np.isnan(all_N), -1, groups_N)


def highest(values_N: ArrayLike, share: float = 0.2) -> Flags:
    r"""Return True for the highest ``share`` of the values: the top :math:`\max(1, \lfloor \mathrm{share}\, N \rfloor)`
    of the N values that are not NaN.

    The result is False for NaN. It is True for every value that equals the lowest of these top values.

    Raises:
        ValueError: ``share`` is not in (0, 1].

    >>> highest([0.1, 0.9, float("nan"), 0.3, 0.9], share=0.25).tolist()
    [False, True, False, False, True]
    """
    if not 0 < share <= 1:
        raise ValueError(f"a share must be in (0, 1], not {share}")
    all_N = np.asarray(values_N, dtype=np.float64)
    known_N = all_N[~np.isnan(all_N)]
    if not len(known_N):
        return np.zeros(len(all_N), dtype=np.bool_)
    chosen = max(1, int(share * len(known_N) + 1e-9))  # since 0.29 * 100 is slightly below 29
    chosen_N: Flags = all_N >= np.partition(known_N, -chosen)[-chosen]
    return chosen_N


def outcome_groups(success_R: ArrayLike) -> Ints:
    """Return the outcome group of each response: 0 for a failure, 1 for a success, and -1 for a response that could not
    be verified (NaN).

    >>> outcome_groups([1.0, 0.0, float("nan")]).tolist()
    [1, 0, -1]
    """
    known_R = np.asarray(success_R, dtype=np.float64)
    return np.where(np.isnan(known_R), -1, known_R > 0).astype(np.int64)
