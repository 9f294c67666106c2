"""Integer apportionment of a rollout budget; the shares sum to the budget exactly."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any


def apportion(weights_P: Sequence[float], total: int, ties_P: Sequence[Any]) -> list[int]:
    """Divide ``total`` into integers in proportion to the weights, by largest remainder (Hamilton's method).

    Each weight gets the integer part of ``total * weight / sum(weights)``. The weights with the largest fractional
    parts get one more unit each, until no units remain; ties go to the smallest value in ``ties_P``. Permuting weights
    and ties together permutes the result in the same way. Degenerate cases: if all weights are zero, they are treated
    as equal. If there are no weights, nothing is allocated.

    Raises:
        ValueError: a weight is negative or not finite.

    >>> apportion([2.0, 1.0, 1.0], 6, ties_P=[0, 1, 2])
    [3, 2, 1]
    >>> apportion([0.0, 0.0], 3, ties_P=["b", "a"])
    [1, 2]
    """
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights_P):
        raise ValueError(f"weights must be finite and not negative: {weights_P}")
    whole = math.fsum(weights_P)  # exactly rounded, so the order of the terms does not matter
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
    """Add ``total`` units to ``counts_P``, each to the problem with the largest gain.

    ``gain(i, n)`` is the gain of raising problem ``i`` from ``n`` to ``n + 1``. If each problem's gains decrease with
    ``n``, the result has the largest possible sum of gains. No count is raised above ``most``, so fewer than ``total``
    units may be allocated. Ties go to the smaller value in ``ties_P``. If ``among`` is given, only the problems with
    these indices get units.

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
