"""Whole numbers: how a budget of rollouts is shared out without losing or inventing one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any


def apportion(weights_P: Sequence[float], total: int, ties_P: Sequence[Any]) -> list[int]:
    """Integers that sum to ``total``, in proportion to the weights, by largest remainder (Hamilton's method).

    Each gets the whole part of ``total * weight / sum(weights)``; what is left goes, one each, to the largest
    fractional parts, and among equal ones to the smallest ``ties_P``. All weights zero: all are taken as equal.
    None at all: nothing is given. Permuting weights and ties permutes the answer.

    Raises:
        ValueError: a weight is negative or not finite.

    >>> apportion([2.0, 1.0, 1.0], 6, ties_P=[0, 1, 2])
    [3, 2, 1]
    >>> apportion([0.0, 0.0], 3, ties_P=["b", "a"])
    [1, 2]
    """
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights_P):
        raise ValueError(f"weights must be finite and not negative: {weights_P}")
    whole = math.fsum(weights_P)  # exactly rounded, so the order of the summands cannot matter
    weights = weights_P if whole > 0 else [1.0] * len(weights_P)
    shares = [total * weight / (whole or len(weights)) for weight in weights]
    given = [math.floor(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (given[i] - shares[i], ties_P[i]))
    for i in by_remainder[: total - sum(given)]:
        given[i] += 1
    return given


def raised(
    counts_P: Sequence[int],
    total: int,
    most: int,
    gain: Callable[[int, int], float],
    ties_P: Sequence[Any],
    among: Collection[int] | None = None,
) -> list[int]:
    """``counts_P`` with ``total`` more, one after another to the ``i`` with the largest ``gain(i, n)`` of ``n + 1``.

    Where the gains of each fall with ``n`` the sum of all gains is the largest that any allocation has: the units of
    the best one are the largest gains there are. No problem gets more than ``most``, so where there is no room left,
    less than ``total`` is given out. Equal gains: the smaller of ``ties_P`` first. ``among``: only these.

    >>> raised([1, 1], 3, most=9, gain=lambda i, n: [3.0, 2.0][i] / n, ties_P=[0, 1])
    [3, 2]
    >>> raised([1, 1], 3, most=2, gain=lambda i, n: 1.0, ties_P=[0, 1])
    [2, 2]
    """
    counts = list(counts_P)
    members = range(len(counts)) if among is None else among
    queue = [(-gain(i, counts[i]), ties_P[i], i) for i in members if counts[i] < most]
    heapq.heapify(queue)
    for _ in range(total):
        if not queue:
            break
        _, tie, i = queue[0]
        counts[i] += 1
        if counts[i] < most:
            heapq.heapreplace(queue, (-gain(i, counts[i]), tie, i))
        else:
            heapq.heappop(queue)
    return counts
