"""A simulated sampler: continuous batching of rows of random length on several GPUs, and no model.

A decoding step of a GPU with w rows takes ``first + w * row`` seconds, so throughput rises with the width and levels
off at ``1 / row``. A GPU takes the next request when a row ends. Prefill costs nothing, requests are spread evenly.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


class Gpu(NamedTuple):
    """Seconds of a decoding step, rows at once, and the learner's tokens per second."""

    first: float
    row: float
    rows: int
    learn: float

    def seconds(self, width: int) -> float:
        """Of one decoding step."""
        return self.first + width * self.row


def calibrated(tokens_per_second: float, width: int, alone: float, rows: int, learn: float) -> Gpu:
    """A GPU with a measured throughput at one width, and an assumed time of a step with one row.

    >>> gpu = calibrated(20_000.0, 256, alone=0.005, rows=512, learn=47_000.0)
    >>> round(256 / gpu.seconds(256)), round(1 / gpu.seconds(1))
    (20000, 200)
    """
    row = (width / tokens_per_second - alone) / (width - 1)
    return Gpu(alone - row, row, rows, learn)


def lengths(rng: Generator, count: int, mean: float, longest: int, spread: float) -> NDArray[np.int64]:
    """Lognormal lengths, truncated at ``longest``; ``spread`` is the deviation of their logarithm."""
    drawn = np.exp(rng.normal(np.log(mean) - spread**2 / 2, spread, count))
    return np.clip(np.rint(drawn), 1, longest).astype(np.int64)


def drained(gpu: Gpu, gpus: int, tokens_N: NDArray[np.int64]) -> float:
    """Seconds until the last of these responses has ended, all requested at once.

    >>> gpu = Gpu(first=1.0, row=0.5, rows=2, learn=1.0)
    >>> drained(gpu, 1, np.array([3, 1])), drained(gpu, 1, np.array([3, 1, 1])), drained(gpu, 2, np.array([3, 1]))
    (5.0, 5.5, 4.5)
    """
    shares = (tokens_N[i::gpus].tolist() for i in range(gpus))
    return max(_drained(gpu, share) for share in shares)


def _drained(gpu: Gpu, waiting: list[int]) -> float:
    """Of one GPU: ends of rows are counted in its decoding steps."""
    now, step = 0.0, 0
    waiting = waiting[::-1]
    ends: list[int] = []
    while waiting or ends:
        while waiting and len(ends) < gpu.rows:
            heapq.heappush(ends, step + waiting.pop())
        now += (ends[0] - step) * gpu.seconds(len(ends))
        step = ends[0]
        while ends and ends[0] == step:
            heapq.heappop(ends)
    return now
