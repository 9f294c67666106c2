"""Decodes a batch of rollouts (a wave): prefills their contexts, then samples all rollouts token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from outrider.record import Ids, SamplingParams, StopReason, uniforms
from outrider.sample.decoder import Cache, Decoder
from outrider.sample.draw import draw
from outrider.sample.kept import Kept, Part, Standing
from outrider.sample.requests import SampledTokens
from outrider.sample.stop import Stops
from outrider.sample.store import BLOCK

_ALIVE = 0.8  # finished rows are dropped once the share of active rows falls below this value


class WaveRow(NamedTuple):
    """One rollout to sample.

    Attributes:
        request: index of the request.
        sibling: index of the rollout within the request.
        seed: the rollout's seed.
        limit: maximum number of sampled tokens.
        reason: stop reason if the rollout reaches ``limit``.
        stop_state: initial state of the stop-text search (:class:`outrider.sample.stop.StopTable`).
        rollout: the rollout's id, under which its KV cache may be kept.
    """

    request: int
    sibling: int
    seed: int
    limit: int
    reason: StopReason
    stop_state: int = 0
    rollout: str = ""


class Wave(NamedTuple):
    """A batch of distinct contexts, with the rollouts to sample from each context, and the context's KV cache if it was
    kept."""

    contexts: list[Ids]
    rows: list[list[WaveRow]]
    standing: list[Standing | None]

    def flat(self) -> list[WaveRow]:
        return [row for rows in self.rows for row in rows]

    @property
    def new_tokens(self) -> int:
        """Number of context tokens that are not in a kept KV cache."""
        return sum(map(len, self.contexts)) - sum(len(one.ids) for one in self.standing if one is not None)


def decode_wave(
    decoder: Decoder[Any],
    wave: Wave,
    params: SamplingParams,
    stops: Stops,
    most_rows: int,
    device: torch.device,
    kept: Kept | None = None,
) -> list[SampledTokens]:
    """Prefill each context once, then decode all rows, at most ``most_rows`` at a time.

    Results are in the order of ``wave.flat()``. A row that ends at an end token or stop text may continue in a later
    turn, so its KV cache is put into ``kept``.
    """
    rows = wave.flat()
    contexts, logits_CV = prefill(decoder, wave.contexts, device, wave.standing)
    # a cache with one row per context needs no copy if it has room
    copied = len(rows) > len(wave.contexts) or contexts.columns == contexts.column
    if kept is not None:
        for anew in (group for group, one in zip(wave.rows, wave.standing, strict=True) if one is None):
            kept.again(row.rollout for row in anew)
        wave.standing.clear()  # otherwise the blocks would stay in memory during decoding
        kept.drop(row.rollout for row in rows)
    context_of = np.repeat(np.arange(len(wave.rows)), [len(group) for group in wave.rows])
    sampled: list[SampledTokens] = []
    for start in range(0, len(rows), most_rows):
        picked = context_of[start : start + most_rows]
        part = rows[start : start + most_rows]
        decoding = _Decoding(decoder, part, params, stops, device, 0 if kept is None else kept.room)
        pick = torch.from_numpy(picked).to(device)
        store = contexts.spread(pick, contexts.column + BLOCK) if copied else contexts
        sampled += decoding.run(store, logits_CV[pick])
        if kept is not None:
            read = [np.concatenate([wave.contexts[c], one.ids]) for c, one in zip(picked, sampled[start:], strict=True)]
            decoding.keep(kept, read)
    return sampled


def prefill(
    decoder: Decoder[Any], contexts: Sequence[Ids], device: torch.device, standing: Sequence[Standing | None] = ()
) -> tuple[Cache, Tensor]:
    """Prefill the uncached tokens of all contexts, which are left-padded. Return the KV cache and the next-token logits
    ``[C, V]``."""
    width = max(map(len, contexts))
    ids_CT = np.zeros((len(contexts), width), np.int64)
    for row, ids in zip(ids_CT, contexts, strict=True):
        row[width - len(ids) :] = ids
    starts_C = torch.tensor([width - len(ids) for ids in contexts], device=device)
    tokens_CT = torch.from_numpy(ids_CT).to(device)
    if any(one is not None for one in standing):
        cache, logits_CV = decoder.proceed(tokens_CT, starts_C, standing)
    else:
        cache, logits_CV = decoder.prefill(tokens_CT, starts_C)
    return cache, logits_CV


def looks_every(device: torch.device) -> int:
    """Return the number of tokens between two checks for finished rows.

    Results do not depend on this number, since tokens after a row's end are discarded.
    """
    # a check synchronises with the GPU, which then idles; on a CPU it is free
    return 1 if device.type == "cpu" else 8


class _Left(NamedTuple):
    """Copies of the KV cache of rows that may continue in a later turn. ``rows`` has the indices of these rows in the
    batch, and ``starts`` has the column at which the tokens of each row begin."""

    parts: list[Part]
    starts: list[int]
    rows: list[int]


class _Decoding:
    """The state of decoding. Arrays with dimension ``B`` cover all rows, and arrays with dimension ``A`` cover only
    rows that are still in the KV cache.

    Args:
        room: maximum number of ended rows whose KV cache may be kept for a next turn.
    """

    def __init__(
        self,
        decoder: Decoder[Any],
        rows: list[WaveRow],
        params: SamplingParams,
        stops: Stops,
        device: torch.device,
        room: int = 0,
    ) -> None:
        self.decoder, self.rows, self.params, self.stops = decoder, rows, params, stops
        self.room_left = room
        self.left: list[_Left] = []
        self.states_B = torch.tensor([row.stop_state for row in rows], device=device)
        self.limits_B = torch.tensor([row.limit for row in rows], device=device)
        self.room = max(row.limit for row in rows)
        seeds = np.array([row.seed for row in rows], np.int64)
        # All uniform numbers are computed in advance: each depends only on its row's seed and the token's position,
        # never on the wave. They are transposed, so that a step reads one row of memory.
        self.uniforms_TB = torch.from_numpy(uniforms(seeds, np.arange(self.room)).T.copy()).to(device)
        self.ids_TB = torch.zeros(self.room, len(rows), dtype=torch.int64, device=device)
        self.logprobs_TB = torch.zeros(self.room, len(rows), device=device)
        self.entropies_TB = torch.zeros_like(self.logprobs_TB)
        self.lengths_B = torch.zeros_like(self.limits_B)
        self.stopped_B = torch.zeros(len(rows), dtype=torch.bool, device=device)
        self.matched_B = torch.zeros_like(self.stopped_B)

    def run(self, store: Cache, logits_BV: Tensor) -> list[SampledTokens]:
        logits_AV, rows_A = logits_BV, torch.arange(len(self.rows), device=logits_BV.device)
        going_A = torch.ones_like(rows_A, dtype=torch.bool)
        every = looks_every(logits_BV.device)
        for t in range(self.room):
            ids_A, going_A = self._step(t, logits_AV, rows_A, going_A)
            full = store.column == store.columns
            alive = int(going_A.sum()) if full or t % every == 0 else len(rows_A)
            if alive == 0:
                break
            # A copy costs memory traffic, so rows are only dropped when the store must be copied anyway to grow, or
            # when enough rows have ended.
            if full or alive < _ALIVE * len(rows_A):
                self._leave(store, rows_A, going_A)
                kept = going_A.nonzero()[:, 0]
                store.keep(kept, store.columns + BLOCK if full else store.columns)
                rows_A, ids_A, going_A = rows_A[kept], ids_A[kept], going_A[kept]
            logits_AV = self.decoder.forward(ids_A[:, None], store)
        self._leave(store, rows_A, going_A)
        return self._sampled()

    def keep(self, kept: Kept, read: Sequence[Ids]) -> None:
        """Add to the collection ``kept`` the KV cache rows that :meth:`_leave` has copied. ``read`` has every row's
        context and sampled tokens."""
        held = set[int]()
        for parts, starts, rows in self.left:
            # the last token was sampled but not processed by the model, so the KV cache lacks it
            kept.put(parts, [(self.rows[b].rollout, at, read[b][:-1]) for b, at in zip(rows, starts, strict=True)])
            held.update(rows)
        for b in (self.stopped_B | self.matched_B).nonzero()[:, 0].tolist():
            if b not in held:
                kept.lose(self.rows[b].rollout, len(read[b]) - 1)

    def _leave(self, store: Cache, rows_A: Tensor, going_A: Tensor) -> None:
        """Copy the KV cache of rows that ended at an end token or stop text. The number of copied rows is limited to
        the number that may still be kept."""
        if not self.room_left or (parts := store.parts()) is None:
            return
        chosen = ((self.stopped_B | self.matched_B)[rows_A] & ~going_A).nonzero()[: self.room_left, 0]
        if len(chosen):
            self.room_left -= len(chosen)
            cut = [(part.narrow(at, 0, store.column).index_select(0, chosen), at) for part, at in parts]
            self.left.append(_Left(cut, store.starts_B[chosen].tolist(), rows_A[chosen].tolist()))

    def _step(self, t: int, logits_AV: Tensor, rows_A: Tensor, going_A: Tensor) -> tuple[Tensor, Tensor]:
        """Sample token ``t`` of every row in the KV cache. The lengths of rows that have ended do not include this
        token."""
        drawn = draw(logits_AV, self.uniforms_TB[t, rows_A], self.params)
        self.ids_TB[t, rows_A] = drawn.ids
        self.logprobs_TB[t, rows_A] = drawn.logprobs
        self.entropies_TB[t, rows_A] = drawn.entropies
        # rows_A has no duplicates, so the indexed sum is correct
        self.lengths_B[rows_A] += going_A
        ended_A = torch.isin(drawn.ids, self.stops.ids)
        self.stopped_B[rows_A] |= ended_A & going_A
        if self.stops.table is not None:
            self.states_B[rows_A] = states_A = self.stops.step(self.states_B[rows_A], drawn.ids)
            matched_A = states_A == self.stops.matched
            self.matched_B[rows_A] |= matched_A & going_A
            ended_A |= matched_A
        # a row at its limit ends here, with the limit's stop reason
        return drawn.ids, going_A & ~ended_A & (self.limits_B[rows_A] > t + 1)

    def _sampled(self) -> list[SampledTokens]:
        ids, logprobs, entropies = (
            column.T.cpu().numpy() for column in (self.ids_TB, self.logprobs_TB, self.entropies_TB)
        )
        reasons = zip(self.rows, self.stopped_B.tolist(), self.matched_B.tolist(), strict=True)
        stops = [
            StopReason.STOP if stopped else StopReason.TEXT if matched else row.reason
            for row, stopped, matched in reasons
        ]
        return [
            SampledTokens(
                ids[b, :length].astype(np.int32),
                logprobs[b, :length].copy(),
                entropies[b, :length].copy(),
                stop,
            )
            for b, (length, stop) in enumerate(zip(self.lengths_B.tolist(), stops, strict=True))
        ]
