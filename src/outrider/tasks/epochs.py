"""Epochs over a finite set of problems."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from outrider.record import identity_seed, uniforms


@lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, n: int) -> NDArray[np.intp]:
    """The order of one epoch."""
    # sorted by our own random numbers: NumPy's shuffles may change with its version
    keys = uniforms(np.array([identity_seed(seed, "epoch", epoch)]), np.arange(n))[0]
    return np.argsort(keys, kind="stable")
