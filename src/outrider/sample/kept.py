"""KV cache of rollouts between turns: the next turn prefills only its new tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from outrider.record import Ids

Part = tuple[Tensor, int]
"""Keys or values of one layer, rows first, and the index of the column dimension."""


class Standing:
    """The KV cache of a rollout: that of ``ids`` is in a row of a block, from column ``start`` on."""

    __slots__ = ("block", "ids", "row", "start")

    def __init__(self, block: Block, row: int, start: int, ids: Ids) -> None:
        self.block, self.row, self.start, self.ids = block, row, start, ids


class Block:
    """Rows that were taken from a cache together."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.standing: dict[str, Standing] = {}

    @property
    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor, _ in self.parts)

    def thin(self) -> None:
        """Drop unused rows once more than half are unused, so each row is copied once on average."""
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

    A rollout is in at most one block, and leaves it when its next turn is prefilled or it ends. So memory is at most
    two rows per waiting rollout, of which there are at most ``most``.

    Args:
        most: maximum kept rollouts. Others are recomputed and counted.

    Attributes:
        recomputed_tokens: tokens of contexts that were computed in an earlier turn but not kept, because there was no
            room or the model's cache has no rows and columns.
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
        """Number of further rollouts that may be kept."""
        return self._most - len(self._standing)

    def find(self, rollouts: Iterable[str], context: Ids) -> Standing | None:
        """The longest kept prefix of a context among the rollouts that continue it, never including the context's last
        token."""
        found = [self._standing[rollout] for rollout in rollouts if rollout in self._standing]
        # a rollout whose tokens do not match is prefilled again
        right = [s for s in found if len(s.ids) < len(context) and np.array_equal(s.ids, context[: len(s.ids)])]
        return max(right, key=lambda standing: len(standing.ids), default=None)

    def put(self, parts: list[Part], rows: Sequence[tuple[str, int, Ids]]) -> None:
        """Keep rows of a cache, each with its rollout, its first column, and the ids from there on."""
        block = Block(parts)
        for row, (rollout, start, ids) in enumerate(rows):
            self._standing[rollout] = block.standing[rollout] = Standing(block, row, start, ids)

    def lose(self, rollout: str, tokens: int) -> None:
        """Note that ``tokens`` computed tokens of a rollout are not kept."""
        self._lost[rollout] = tokens

    def again(self, rollouts: Iterable[str]) -> None:
        """Count the rollouts' tokens as recomputed, since they are prefilled from the start as one context."""
        self.recomputed_tokens += max((self._lost.get(rollout, 0) for rollout in rollouts), default=0)

    def clear(self) -> None:
        """Drop everything, since a KV cache is invalid for other weights."""
        for rollout, standing in self._standing.items():
            self.lose(rollout, len(standing.ids))
        self._standing.clear()

    def drop(self, rollouts: Iterable[str]) -> None:
        """Drop rollouts that have ended or moved; unknown ones are ignored."""
        touched: dict[int, Block] = {}
        for rollout in rollouts:
            self._lost.pop(rollout, None)
            if (standing := self._standing.pop(rollout, None)) is not None:
                del standing.block.standing[rollout]
                touched[id(standing.block)] = standing.block
        for block in touched.values():
            block.thin()


def aligned(standing: Sequence[Standing | None], starts: Sequence[int], columns: int) -> list[Part]:
    """Tensors with one row per context, with its kept tokens from its column in ``starts`` on, and zeros elsewhere.

    There may be columns of other tokens before the start of a row or after its kept tokens.
    """
    like = next(one.block for one in standing if one is not None)
    whole = []
    for tensor, at in like.parts:
        shape = list(tensor.shape)
        shape[0], shape[at] = len(standing), columns
        whole.append((tensor.new_zeros(shape), at))
    # rows of one block with the same shift are copied together
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
