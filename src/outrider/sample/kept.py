"""Keeps the KV caches of rollouts between turns, so that the next turn prefills only its new tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from outrider.record import Ids

Part = tuple[Tensor, int]
"""Keys or values of one layer, with rows as the first dimension, and the index of the column dimension."""


class Standing:
    """A reference to a rollout's kept KV cache: the token ids, and where their cache is. In row ``row`` of ``block``,
    the cache of the tokens ``ids`` begins at column ``start``."""

    __slots__ = ("block", "ids", "row", "start")

    def __init__(self, block: Block, row: int, start: int, ids: Ids) -> None:
        self.block, self.row, self.start, self.ids = block, row, start, ids


class Block:
    """The KV caches that :class:`Kept` received in one call, as tensors with one row per rollout."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.standing: dict[str, Standing] = {}

    @property
    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor, _ in self.parts)

    def thin(self) -> None:
        """Drop unused rows if more than half of the rows are unused. Each drop copies the remaining rows; with this
        threshold, a row is copied about once on average."""
        rows = len(self.parts[0][0])
        if not self.standing or 2 * len(self.standing) >= rows:
            return
        held = list(self.standing.values())
        at = torch.tensor([one.row for one in held], device=self.parts[0][0].device)
        self.parts = [(tensor.index_select(0, at), columns) for tensor, columns in self.parts]
        for row, one in enumerate(held):
            one.row = row


class Kept:
    """The KV caches of rollouts that may continue, by rollout id.

    The cache rows of one call of :meth:`put` form a block. A rollout is in at most one block, and leaves the block when
    its next turn is prefilled or the rollout ends. A block frees its unused rows when more than half of its rows are
    unused, so memory use is at most two cache rows per kept rollout.

    Args:
        most: maximum number of rollouts whose KV caches are kept. All other rollouts are prefilled from the start at
            each turn.

    Attributes:
        recomputed_tokens: number of context tokens that are prefilled again, because their KV cache was not kept. A
            cache is not kept if ``most`` caches are kept already, if the model's weights have changed, or if the
            model's cache does not store every token, as with a recurrent state.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._standing: dict[str, Standing] = {}
        self._lost: dict[str, int] = {}
        self.recomputed_tokens = 0

    def __len__(self) -> int:
        return len(self._standing)

    @property
    def bytes(self) -> int:
        return sum(block.bytes for block in {id(s.block): s.block for s in self._standing.values()}.values())

    @property
    def room(self) -> int:
        """Number of additional rollouts that may be kept."""
        return self._most - len(self._standing)

    def find(self, rollouts: Iterable[str], context: Ids) -> Standing | None:
        """Return the longest kept KV cache of ``rollouts`` whose tokens are a prefix of ``context``, or None if there
        is none.

        The cache never includes the context's last token, because the logits of the last token are still needed.
        """
        found = [self._standing[rollout] for rollout in rollouts if rollout in self._standing]
        # a rollout whose tokens do not match the context is prefilled from the start
        right = [s for s in found if len(s.ids) < len(context) and np.array_equal(s.ids, context[: len(s.ids)])]
        return max(right, key=lambda standing: len(standing.ids), default=None)

    def put(self, parts: list[Part], rows: Sequence[tuple[str, int, Ids]]) -> None:
        """Keep the cache rows in ``parts``.

        Each entry of ``rows`` describes one cache row: rollout id, first column, and token ids from that column on.
        """
        block = Block(parts)
        for row, (rollout, start, ids) in enumerate(rows):
            self._standing[rollout] = block.standing[rollout] = Standing(block, row, start, ids)

    def lose(self, rollout: str, tokens: int) -> None:
        """Record that a rollout's KV cache of ``tokens`` tokens was computed but not kept."""
        self._lost[rollout] = tokens

    def again(self, rollouts: Iterable[str]) -> None:
        """Increase ``recomputed_tokens`` by the tokens of one context whose KV cache was not kept. All ``rollouts``
        have this context, so its tokens are counted only once."""
        self.recomputed_tokens += max((self._lost.get(rollout, 0) for rollout in rollouts), default=0)

    def clear(self) -> None:
        """Drop all KV caches, since they are invalid after a change of the weights."""
        for rollout, standing in self._standing.items():
            self.lose(rollout, len(standing.ids))
        self._standing.clear()

    def drop(self, rollouts: Iterable[str]) -> None:
        """Drop the caches of rollouts that have ended or are being prefilled. Unknown ids are ignored."""
        touched: dict[int, Block] = {}
        for rollout in rollouts:
            self._lost.pop(rollout, None)
            if (standing := self._standing.pop(rollout, None)) is not None:
                del standing.block.standing[rollout]
                touched[id(standing.block)] = standing.block
        for block in touched.values():
            block.thin()


def aligned(standing: Sequence[Standing | None], starts: Sequence[int], columns: int) -> list[Part]:
    """Return tensors with one row per context. Row ``b`` contains the kept cache of context ``b`` from column
    ``starts[b]`` on.

    A row without a kept cache is zero. Columns before a row's start or after its kept tokens have arbitrary values.
    """
    like = next(one.block for one in standing if one is not None)
    whole = []
    for tensor, at in like.parts:
        shape = list(tensor.shape)
        shape[0], shape[at] = len(standing), columns
        whole.append((tensor.new_zeros(shape), at))
    # rows of one block with the same column shift are copied together
    moves: dict[tuple[int, int], list[tuple[int, Standing]]] = {}
    for row, (one, start) in enumerate(zip(standing, starts, strict=True)):
        if one is not None:
            moves.setdefault((id(one.block), start - one.start), []).append((row, one))
    for (_, by), moved in moves.items():
        device = whole[0][0].device
        rows = torch.tensor([row for row, _ in moved], device=device)
        froms = torch.tensor([one.row for _, one in moved], device=device)
        first = min(one.start for _, one in moved)
        width = max(one.start + len(one.ids) for _, one in moved) - first
        for (new, at), (old, _) in zip(whole, moved[0][1].block.parts, strict=True):
            new.narrow(at, first + by, width).index_copy_(0, rows, old.narrow(at, first, width).index_select(0, froms))
    return whole
