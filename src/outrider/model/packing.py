"""Packs several sequences end to end for one forward pass. A context that several sequences share is packed only once.

For example, all rollouts of a problem begin with its prompt. The output of a causal model at a position depends only on
the token there and on earlier tokens. So a context's hidden states and KV cache are the same for every sequence that
begins with this context. The module does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from outrider.record import Ids

Indices = NDArray[np.int64]


class Packable(Protocol):
    """A sequence of tokens: first a context (``context_ids``), then ``token_ids``. Log-probabilities are computed only
    for ``token_ids``."""

    @property
    def context_ids(self) -> Ids: ...
    @property
    def token_ids(self) -> Ids: ...
    @property
    def length(self) -> int: ...


class Packing(NamedTuple):
    """A packed batch of ``T`` tokens. Before packing, the sequences have ``E`` tokens in total, of which ``N`` follow
    the contexts.

    Attributes:
        ids_T: the tokens.
        positions_T: the position of each token in its sequence. Positions start at 0 in every sequence. Otherwise, a
            sequence's rotary embedding would depend on the sequences packed before it.
        lengths: the number of tokens in each sequence, including its context.
        places_E: the indices in ``ids_T`` of all tokens of each sequence, one sequence after another.
        before_N: for each token after a context, the index of the preceding token, whose hidden state predicts the
            token.
        own_N: the index in ``ids_T`` of each token after a context.
    """

    ids_T: Indices
    positions_T: Indices
    lengths: list[int]
    places_E: Indices
    before_N: Indices
    own_N: Indices

    @property
    def shares(self) -> bool:
        """Whether at least two sequences share a packed context."""
        return len(self.places_E) > len(self.ids_T)


def context_of(row: Packable) -> bytes:
    """Return a key for the context of a row: rows with equal keys have the same context tokens."""
    return row.context_ids.tobytes()


def pack(rows: Sequence[Packable]) -> Packing:
    """Pack rows end to end, in order; a context that is already packed is not packed again.

    Only equal contexts are shared. If one context is a prefix of another context, both are packed in full.

    >>> row = type("Row", (), {"context_ids": np.array([7, 8]), "token_ids": np.array([5])})
    >>> packing = pack([row, row])
    >>> packing.ids_T.tolist(), packing.places_E.tolist(), packing.before_N.tolist()
    ([7, 8, 5, 5], [0, 1, 2, 0, 1, 3], [1, 1])
    """
    starts: dict[bytes, int] = {}
    laid: list[Any] = []
    positions: list[Any] = []
    places: list[Any] = []
    before: list[Any] = []
    own: list[Any] = []
    total = 0
    for row in rows:
        context, tokens = len(row.context_ids), len(row.token_ids)
        if (start := starts.get(context_of(row))) is None:
            start = starts[context_of(row)] = total
            laid.append(row.context_ids)
            positions.append(np.arange(context))
            total += context
        laid.append(row.token_ids)
        positions.append(context + np.arange(tokens))
        mine = total + np.arange(tokens)
        total += tokens
        places += [start + np.arange(context), mine]
        before += [[start + context - 1][:tokens], mine[:-1]]
        own.append(mine)
    whole = [np.concatenate(parts).astype(np.int64) for parts in (laid, positions, places, before, own)]
    return Packing(whole[0], whole[1], [len(r.context_ids) + len(r.token_ids) for r in rows], *whole[2:])
