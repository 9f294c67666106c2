"""Epochs over a finite set of problems."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from outrider.record import identity_seed, uniforms


@lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, n: int) -> NDArray[np.intp]:
    """A random order of ``n`` problems for one epoch."""
    # sorted by Outrider's own random numbers, since NumPy's shuffles may change between versions
    keys = uniforms(np.array([identity_seed(seed, "epoch", epoch)]), np.arange(n))[0]
    return np.argsort(keys, kind="stable")


def in_pool(seed: int, index: int, pool: int | None) -> int:
    """The problem at position ``index`` of a stream.

    With a pool, each epoch has every problem once, in a new order. Without one (None), all problems are new.

    >>> [in_pool(0, index, None) for index in range(4)], sorted(in_pool(0, index, 2) for index in range(4))
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    if pool is None:
        return index
    epoch, position = divmod(index, pool)
    return int(permutation(seed, epoch, pool)[position])
