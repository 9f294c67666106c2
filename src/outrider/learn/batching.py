"""How rows are divided: into optimizer batches, over ranks, into micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from outrider.record.row import WeightedRow


class HasLength(Protocol):
    """Anything that takes up tokens."""

    @property
    def length(self) -> int: ...


Sized = TypeVar("Sized", bound=HasLength)


def cut_by_group(rows: Sequence[WeightedRow], parts: int) -> list[list[WeightedRow]]:
    """Optimizer batches: whole groups, in order, as even as their number allows. Never an empty part.

    >>> from outrider.record.row import imitation_row
    >>> a, b = (imitation_row(np.zeros(1, np.int32), np.zeros(1, np.int32)) for _ in "ab")
    >>> [len(part) for part in cut_by_group([a, b], parts=3)]
    [2]
    """
    # in the order of arrival, on which the order of updates depends
    groups: dict[str, list[WeightedRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    cuts = np.array_split(np.arange(len(groups)), min(parts, max(1, len(groups))))
    ordered = list(groups.values())
    return [[row for g in cut for row in ordered[g]] for cut in cuts if len(cut)]


def micro_batches(rows: Sequence[Sized], tokens: int) -> list[list[Sized]]:
    """Rows sorted by length and filled into micro-batches of at most ``tokens``; a longer row gets one of its own."""
    batches: list[list[Sized]] = []
    room = 0
    # rows of like length waste little padding in attention; sorted is stable, so equal lengths keep their order
    for row in sorted(rows, key=lambda r: r.length):
        if row.length > room:
            batches.append([])
            room = tokens
        batches[-1].append(row)
        room -= row.length
    return batches


def split_by_tokens(rows: Sequence[Sized], parts: int) -> list[list[Sized]]:
    """Rows over ranks: longest first, each to the rank with the fewest tokens so far. Ties go to the lowest rank."""
    loads = [0] * parts
    split: list[list[Sized]] = [[] for _ in range(parts)]
    # every rank runs this on all rows and gets the same split
    for row in sorted(rows, key=lambda r: -r.length):
        rank = loads.index(min(loads))
        split[rank].append(row)
        loads[rank] += row.length
    return split
