"""Whole numbers in proportion: how a budget of rollouts is shared out without losing or inventing one."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
