"""Derives the seed of each random draw from names and numbers that do not depend on scheduling.

For example, a rollout's seed is a hash of the run's seed, the group, the rollout's index in the group and, for a
branch, the parent rollout and the position at which the branch starts. The seed does not depend on the group's size, on
the number of processes, or on the order or batches in which rollouts are sampled.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def identity_seed(*parts: int | str) -> int:
    """Return a 63-bit seed from a sequence of integers and strings. The seed is the same on every machine.

    ``("a", "bc")`` and ``("ab", "c")`` give different seeds, and so do ``1`` and ``"1"``.

    Raises:
        TypeError: a part is neither an int nor a str. NumPy integers and bools are rejected as well, since
            ``np.int64(1)`` and ``True`` would silently give other seeds than ``1``.

    >>> identity_seed(0, "a", "bc") == identity_seed(0, "ab", "c")
    False
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        if type(part) is not int and type(part) is not str:
            raise TypeError(f"{part!r} is {type(part).__name__}; a seed is made of int and str alone")
        # broken JSON may contain lone surrogates, which strict UTF-8 cannot encode
        text = f"{type(part).__name__}:{part}".encode("utf-8", "surrogatepass")
        # hash the length first; otherwise, ("a", "bc") and ("ab", "c") would give the same seed
        digest.update(len(text).to_bytes(4, "little") + text)
    # 63 bits fit the signed integers of Parquet and torch
    return int.from_bytes(digest.digest(), "little") >> 1


def uniforms(seeds_B: NDArray[np.integer], positions_T: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return one uniform random number in (0, 1) for each seed and token position, as float64 of shape ``[B, T]``.

    The generator is SplitMix64 (``_GAMMA`` is its increment). Each number is computed from seed and position alone, so
    it does not depend on earlier draws. Values are odd multiples of 2^-53, so neither 0 nor 1 occurs. Source: Steele,
    Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.

    >>> a = uniforms(np.array([7]), np.arange(4))
    >>> b = uniforms(np.array([3, 7]), np.arange(2, 4))
    >>> bool((a[0, 2:] == b[1]).all())
    True
    """
    # the arithmetic is modulo 2^64, so overflow is intended
    with np.errstate(over="ignore"):
        counters = positions_T.astype(np.uint64) + np.uint64(1)
        x = seeds_B.astype(np.uint64)[:, None] + counters[None, :] * _GAMMA
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
        x = x ^ (x >> np.uint64(31))
    odd_BT: NDArray[np.uint64] = (x >> np.uint64(11)) | np.uint64(1)  # 53 bits are exact in float64: never 1.0
    return odd_BT.astype(np.float64) * 2.0**-53
