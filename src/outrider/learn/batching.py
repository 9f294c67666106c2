"""How rows are divided: into optimizer batches, over ranks, into micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from outrider.model.packing import Packable, context_of
from outrider.record.row import WeightedRow

_REPEATED = 4
"""Attention repeats a shared context for each row. Its queries, keys and values are at most this part of a token's
activations: a quarter of them with SmolLM2-135M's widths, a seventh with Qwen2.5-1.5B's."""

_MIN_GAIN = 0.1
"""Share of all tokens that sharing contexts has to save before rows are ordered for it."""

Sized = TypeVar("Sized", bound=Packable)


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


def micro_batches(rows: Sequence[Sized], tokens: int, shares: bool = True) -> list[list[Sized]]:
    """Rows filled into micro-batches of at most ``tokens`` tokens; a longer row gets one of its own.

    Args:
        shares: whether a micro-batch computes a context once for all rows that begin with it, as packed rows do
            (:mod:`outrider.model.packing`). Each further row then counts a quarter of its context, for attention.
    """
    return _filled(_ordered(rows, shares), tokens, shares)


def split_by_tokens(rows: Sequence[Sized], parts: int, shares: bool = True) -> list[list[Sized]]:
    """Rows over ranks, so that the rank with the most tokens to compute has few. Every rank gets the same split.

    The better one of two: longest row first, each to the rank with the fewest tokens so far (ties go to the lowest
    rank), which computes a context on nearly every rank; and rows of one context after the other, cut in as many runs
    as there are ranks, which computes all but a few contexts once.
    """
    loads = [0] * parts
    longest_first: list[list[Sized]] = [[] for _ in range(parts)]
    for row in sorted(rows, key=lambda r: -r.length):
        rank = loads.index(min(loads))
        longest_first[rank].append(row)
        loads[rank] += row.length
    if parts == 1 or not shares or not rows:
        return longest_first
    in_runs = _runs(_by_context(rows), parts)
    return min(longest_first, in_runs, key=lambda split: max(_load(part) for part in split))


def _ordered(rows: Sequence[Sized], shares: bool) -> list[Sized]:
    """By length, which wastes little padding in attention, unless sharing contexts saves more than that would."""
    if shares and sum(row.length for row in rows) - _load(rows) >= _MIN_GAIN * sum(row.length for row in rows):
        return _by_context(rows)
    return sorted(rows, key=lambda r: r.length)  # stable, so equal lengths keep their order


def _by_context(rows: Sequence[Sized]) -> list[Sized]:
    """Rows of one context after another, shortest first; contexts by their longest row."""
    contexts: dict[bytes, list[Sized]] = {}
    for row in sorted(rows, key=lambda r: r.length):
        contexts.setdefault(context_of(row), []).append(row)
    return [row for alike in sorted(contexts.values(), key=lambda alike: alike[-1].length) for row in alike]


def _runs(rows: Sequence[Sized], parts: int) -> list[list[Sized]]:
    """Rows in order, cut into at most ``parts`` runs of which the largest is as small as can be; then empty ones."""
    low, high = max(row.length for row in rows), sum(row.length for row in rows)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(rows, middle, shares=True)) <= parts else (middle + 1, high)
    runs = _filled(rows, low, shares=True)
    return runs + [[] for _ in range(parts - len(runs))]


def _filled(rows: Sequence[Sized], tokens: int, shares: bool) -> list[list[Sized]]:
    """Rows in order, cut wherever the next one would make more than ``tokens`` tokens to compute."""
    batches: list[list[Sized]] = []
    room, contexts = 0, set[bytes]()
    for row in rows:
        context = context_of(row)
        more = _again(row) if shares and context in contexts else row.length
        if more > room:
            batches.append([])
            room, contexts, more = tokens, set(), row.length
        batches[-1].append(row)
        room -= more
        contexts.add(context)
    return batches


def _load(rows: Sequence[Sized]) -> int:
    """What rows cost in one pass, in tokens, where each context is computed once."""
    firsts = {context_of(row): row for row in rows}
    return sum(_again(row) for row in rows) + sum(row.length - _again(row) for row in firsts.values())


def _again(row: Packable) -> int:
    """What a row costs whose context is in the pass already, in tokens."""
    return len(row.token_ids) + len(row.context_ids) // _REPEATED
