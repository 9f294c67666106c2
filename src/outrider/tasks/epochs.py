"""The order of problems in epochs over a finite set of problems."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from outrider.record import identity_seed, uniforms


@lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, n: int) -> NDArray[np.intp]:
    """Return a random order of ``n`` problems for one epoch."""
    # sort by Outrider's own random numbers, since shuffles may differ between versions of NumPy
    keys = uniforms(np.array([identity_seed(seed, "epoch", epoch)]), np.arange(n))[0]
    return np.argsort(keys, kind="stable")


def in_pool(seed: int, index: int, pool: int | None) -> int:
    """Return which problem is at position ``index`` of a stream, as an index into the set of problems.

    With a pool, each epoch contains every problem of the pool once, in a new order. Without a pool (None), every
    position has a new problem.

    >>> [in_pool(0, index, None) for index in range(4)], sorted(in_pool(0, index, 2) for index in range(4))
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    if pool is None:
        return index
    epoch, position = divmod(index, pool)
    return int(permutation(seed, epoch, pool)[position])
