"""Keeps the log-probabilities from the forward passes of training, for example for metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outrider.learn.processes import Processes
from outrider.record.row import WeightedRow


class SeenLogprobs:
    """Collects each row's log-probabilities from the last optimizer batch that contained the row.

    No extra pass is needed: the values stay on the device until all updates of the step are done, and are then copied
    in one transfer.
    """

    def __init__(self) -> None:
        self._batch = -1
        self._last: dict[int, int] = {}  # the last batch of each row, the same on every rank
        self._parts: list[tuple[int, list[int], Tensor]] = []

    def begin(self, rows: Sequence[WeightedRow]) -> None:
        """Start an optimizer batch of the given rows, which are the same on every rank."""
        self._batch += 1
        self._last.update((row.place, self._batch) for row in rows)

    def add(self, rows: Sequence[WeightedRow], logprobs_N: Tensor) -> None:
        """Store the log-probabilities of one of this rank's micro-batches. ``N`` is the number of ``token_ids`` in
        ``rows``.
        """
        self._parts.append((self._batch, [row.place for row in rows], logprobs_N.detach()))

    def forget(self) -> None:
        """Discard the values of the current batch, which ran out of memory and will be retried."""
        self._parts = [part for part in self._parts if part[0] != self._batch]

    def of(self, sizes: Sequence[int], ranks: Processes) -> list[NDArray[np.float32] | None]:
        """Return the log-probabilities of each row of the step, on every rank; None for rows that were not in any
        batch.

        Args:
            sizes: number of ``token_ids`` in each row.
            ranks: the processes of the run, each of which has computed the log-probabilities of its share of the rows.
        """
        ends = np.cumsum([0, *sizes])
        values_N = torch.zeros(int(ends[-1]), dtype=torch.float32)
        parts = [part for part in self._parts if part[1]]
        if parts:
            seen = torch.cat([part[2].float() for part in parts]).cpu()  # one copy, since each copy synchronises
            start = 0
            for batch, places, _ in parts:
                for place in places:
                    if self._last[place] == batch:
                        values_N[ends[place] : ends[place + 1]] = seen[start : start + sizes[place]]
                    start += sizes[place]
        # zeros for rows of other ranks; the sum over ranks fills them in
        split = np.split(ranks.sum_(values_N).numpy(), ends[1:-1])
        return [split[place] if place in self._last else None for place in range(len(sizes))]
