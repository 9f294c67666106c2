"""Derives the seed of every random draw from the identity of the draw, so that no result depends on scheduling.

A rollout's seed is a hash of (master seed, group, member index, parent rollout, branch position). Batch composition,
order, group size and the number of processes do not affect the seed.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def identity_seed(*parts: int | str) -> int:
    """Return a 63-bit seed from any sequence of integers and strings, the same on every machine.

    ``("a", "bc")`` and ``("ab", "c")`` give different seeds, and so do ``1`` and ``"1"``.

    Raises:
        TypeError: a part has another type. This includes NumPy integers and bools, which would silently give other
            seeds.

    >>> identity_seed(0, "a", "bc") == identity_seed(0, "ab", "c")
    False
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        if type(part) is not int and type(part) is not str:
            raise TypeError(f"{part!r} is {type(part).__name__}; a seed is made of int and str alone")
        # broken JSON can hold lone surrogates, which plain UTF-8 refuses
        text = f"{type(part).__name__}:{part}".encode("utf-8", "surrogatepass")
        # the length first, or ("a", "bc") and ("ab", "c") would give one seed
        digest.update(len(text).to_bytes(4, "little") + text)
    # 63 bits fit the signed integers of Parquet and torch
    return int.from_bytes(digest.digest(), "little") >> 1


def uniforms(seeds_B: NDArray[np.integer], positions_T: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return one uniform number in (0, 1) per (seed, token position): float64 of shape ``[B, T]``.

    The generator is counter-based: it applies SplitMix64's output function to ``seed + position * golden gamma``. So a
    position's number does not depend on earlier draws. Values are odd multiples of 2^-53, so neither 0 nor 1 occurs.
    Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.

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
    odd_BT: NDArray[np.uint64] = (x >> np.uint64(11)) | np.uint64(1)  # 53 bits: exact in float64, so never rounded to 1
    return odd_BT.astype(np.float64) * 2.0**-53
