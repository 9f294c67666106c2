"""Divides training rows into optimizer batches, splits batches over ranks, and packs micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from outrider.model.packing import Packable, context_of
from outrider.record.row import WeightedRow

_REPEATED = 4
"""Inverse of the share that queries, keys and values have in a token's activations. Attention repeats them per row for
a shared context. The share is at most one quarter: one quarter with SmolLM2-135M's widths, one seventh with
Qwen2.5-1.5B's widths."""

_MIN_GAIN = 0.1
"""Rows are sorted by context only if sharing contexts saves at least this share of the tokens."""

Sized = TypeVar("Sized", bound=Packable)


def cut_by_group(rows: Sequence[WeightedRow], parts: int) -> list[list[WeightedRow]]:
    """Cut rows into at most ``parts`` optimizer batches. Each batch contains whole groups, and the numbers of groups
    are nearly equal. The order of the groups is kept.

    >>> from outrider.record.row import imitation_row
    >>> a, b = (imitation_row(np.zeros(1, np.int32), np.zeros(1, np.int32)) for _ in "ab")
    >>> [len(part) for part in cut_by_group([a, b], parts=3)]
    [2]
    """
    # in order of first appearance, which determines the order of updates
    groups: dict[str, list[WeightedRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    cuts = np.array_split(np.arange(len(groups)), min(parts, max(1, len(groups))))
    ordered = list(groups.values())
    return [[row for g in cut for row in ordered[g]] for cut in cuts if len(cut)]


def micro_batches(rows: Sequence[Sized], tokens: int, shares: bool = True) -> list[list[Sized]]:
    """Pack rows into micro-batches of at most ``tokens`` tokens; a longer row gets its own micro-batch.

    Args:
        shares: whether a context that several rows of a micro-batch share is computed only once
            (:mod:`outrider.model.packing`). If so, all tokens of the context count for the first of these rows. For
            each other row, a quarter of them count, since attention to the context has a cost too.
    """
    return _filled(_ordered(rows, shares), tokens, shares)


def split_by_tokens(rows: Sequence[Sized], parts: int, shares: bool = True) -> list[list[Sized]]:
    """Split rows over ranks to minimise the maximum number of tokens per rank. Every rank computes the same split.

    The better of two splits is used. The first split assigns rows from longest to shortest, each to the rank with the
    fewest tokens so far (ties go to the lowest rank). With this split, a shared context is computed on nearly every
    rank. The second split sorts rows by context and cuts the sorted rows into one consecutive block per rank, so nearly
    all contexts are computed only once.
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
    """Sort rows by length, which reduces padding in attention, or by context if that saves more computation."""
    if shares and sum(row.length for row in rows) - _load(rows) >= _MIN_GAIN * sum(row.length for row in rows):
        return _by_context(rows)
    return sorted(rows, key=lambda r: r.length)  # a stable sort: equal lengths keep their order


def _by_context(rows: Sequence[Sized]) -> list[Sized]:
    """Group rows by context, with the shortest row first in each group. The groups are ordered by the length of their
    longest row.
    """
    contexts: dict[bytes, list[Sized]] = {}
    for row in sorted(rows, key=lambda r: r.length):
        contexts.setdefault(context_of(row), []).append(row)
    return [row for alike in sorted(contexts.values(), key=lambda alike: alike[-1].length) for row in alike]


def _runs(rows: Sequence[Sized], parts: int) -> list[list[Sized]]:
    """Cut rows, in order, into ``parts`` blocks so that the maximum load is as small as possible. The last blocks may
    be empty.
    """
    low, high = max(row.length for row in rows), sum(row.length for row in rows)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(rows, middle, shares=True)) <= parts else (middle + 1, high)
    runs = _filled(rows, low, shares=True)
    return runs + [[] for _ in range(parts - len(runs))]


def _filled(rows: Sequence[Sized], tokens: int, shares: bool) -> list[list[Sized]]:
    """Cut rows, in order, into batches of at most ``tokens`` tokens, counted as in :func:`micro_batches`."""
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
    """Return the cost of rows in one pass, in tokens, with each context computed once."""
    firsts = {context_of(row): row for row in rows}
    return sum(_again(row) for row in rows) + sum(row.length - _again(row) for row in firsts.values())


def _again(row: Packable) -> int:
    """Return the cost, in tokens, of a row whose context another row of the micro-batch already has."""
    return len(row.token_ids) + len(row.context_ids) // _REPEATED
