"""The local sampler: samples with a transformers causal LM in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from outrider.model.device import placement
from outrider.model.load import Policy
from outrider.record import Ids, Rollout, SampleRequest, SamplingParams
from outrider.sample.decoder import Decoder, PackedDecoder
from outrider.sample.fused import FusedDecoder
from outrider.sample.kept import Kept, Standing
from outrider.sample.options import SampleOptions
from outrider.sample.plain import PlainDecoder
from outrider.sample.requests import PolicyLimits, SampledTokens, context_of, prefix_of, rollouts_of
from outrider.sample.sampler import Export
from outrider.sample.stop import Stops, StopTable, ends_of, token_bytes
from outrider.sample.wave import Wave, WaveRow, decode_wave


class LocalSampler:
    """Decodes rollouts in batches (called waves).

    In a call of :meth:`sample`, rollouts with the same context share one prefill: the context's KV cache is copied to
    each rollout's row. A context is a prompt, possibly followed by the beginning of another rollout's response.
    Finished rows are dropped during decoding. In the context manager :meth:`keeping`, the KV caches of multi-turn
    rollouts are kept between turns.
    """

    engines = 1
    gives_entropies = True

    def __init__(self, policy: Policy, options: SampleOptions) -> None:
        self.tokenizer, self.options = policy.tokenizer, options
        self.limits = PolicyLimits(policy)
        self.device = next(policy.model.parameters()).device
        self.stops = stops_of(policy, options.stop)
        self.decoder = decoder_of(policy)
        self._keeps = policy.path.keeps
        self.version = 0
        self.prefilled_tokens = 0
        self._kept: Kept | None = None
        self._recomputed_tokens = 0
        self.notices: list[str] = []

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Rebuild fused weights and drop kept KV caches. The weights need no sync, since they are shared with the
        policy.

        Returns ``recomputed_tokens``, the number of context tokens that were prefilled again because their KV cache was
        not kept. The result is empty if this number is 0.
        """
        self.version = version
        self.decoder.updated()
        if self._kept is not None:
            self._kept.clear()
        recomputed, self._recomputed_tokens = self._recomputed_tokens, 0
        return {"recomputed_tokens": recomputed} if recomputed else {}

    def close(self) -> None:
        """Do nothing, since there is nothing to release."""

    @contextmanager
    def keeping(self) -> Iterator[Kept]:
        """Context manager that keeps KV caches between turns (:class:`outrider.sample.sampler.Keeping`).

        The KV caches of at most ``options.rows`` rollouts are kept.
        """
        self._kept = Kept(self.options.most_rows if self._keeps else 0)
        try:
            yield self._kept
        finally:
            self._recomputed_tokens += self._kept.recomputed_tokens
            self._kept = None

    @torch.inference_mode()
    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        tokens_of_member: dict[tuple[int, int], SampledTokens] = {}
        # each wave has one set of sampling parameters; sets are processed in order of first occurrence
        for params in dict.fromkeys(self._params(request) for request in requests):
            chosen = [i for i, request in enumerate(requests) if self._params(request) == params]
            for wave in self._waves(requests, chosen, params):
                self.prefilled_tokens += wave.new_tokens
                sampled = decode_wave(
                    self.decoder, wave, params, self.stops, self.options.most_rows, self.device, self._kept
                )
                members = [(row.request, row.sibling) for row in wave.flat()]
                tokens_of_member.update(zip(members, sampled, strict=True))
        # results are in the order of the requests, not of the waves
        modes = [self._params(request).logprob_mode for request in requests]
        return rollouts_of(requests, tokens_of_member, modes, self.version, self.tokenizer)

    def _params(self, request: SampleRequest) -> SamplingParams:
        return request.params or self.options.params()

    def _waves(self, requests: Sequence[SampleRequest], chosen: list[int], params: SamplingParams) -> Iterator[Wave]:
        """Group the chosen requests into waves (batches) of contexts of similar length.

        A wave has up to ``options.rows`` rows. All rows of a context are in one wave, even if there are more of them
        than ``options.rows``.
        """
        # keyed by the bytes of the ids: requests with the same prompt or prefix share one prefill
        contexts: dict[bytes, tuple[Ids, list[WaveRow]]] = {}
        for i in chosen:
            request = requests[i]
            ids, room = context_of(request), self.limits.room(request, params)
            rows = contexts.setdefault(ids.tobytes(), (ids, []))[1]
            stop_state = self.stops.after(prefix_of(request))
            rows.extend(
                WaveRow(i, k, request.rollout_seed(k), *room, stop_state, request.rollout_id(k))
                for k in range(request.n)
            )
        wave = Wave([], [], [])
        # sorted, since similar lengths need the least padding; the sort is stable, so waves are deterministic
        for ids, rows in sorted(contexts.values(), key=lambda item: -self._new_tokens(*item)):
            full = sum(map(len, wave.rows)) + len(rows) > self.options.most_rows
            if wave.rows and (full or not self.decoder.batchable([*wave.contexts, ids])):
                yield wave
                wave = Wave([], [], [])
            wave.contexts.append(ids)
            wave.rows.append(rows)
            wave.standing.append(self._standing(ids, rows))
        if wave.rows:
            yield wave

    def _standing(self, context: Ids, rows: list[WaveRow]) -> Standing | None:
        """Return the kept KV cache of one of the context's rollouts, or None if no cache is kept."""
        return None if self._kept is None else self._kept.find([row.rollout for row in rows], context)

    def _new_tokens(self, context: Ids, rows: list[WaveRow]) -> int:
        standing = self._standing(context, rows)
        return len(context) - (0 if standing is None else len(standing.ids))


def decoder_of(policy: Policy) -> Decoder[Any]:
    """Create the policy's decoder: the model's own forward pass (plain), or a faster decoder of Outrider (packed or
    fused)."""
    dtype = placement(policy.options.dtype).dtype
    if policy.path.name == "plain":
        return PlainDecoder(policy.model, dtype, policy.path.left_pads)
    return FusedDecoder(policy.model, dtype) if policy.path.name == "fused" else PackedDecoder(policy.model, dtype)


def stops_of(policy: Policy, texts: Sequence[str] = ()) -> Stops:
    """Return the tokens and texts that end a response: the policy's end tokens, and ``texts``. They are stored on the
    model's device."""
    ends = ends_of(policy, texts)
    vocabulary = policy.model.get_output_embeddings().weight.shape[0]
    table = StopTable(ends.texts, token_bytes(policy.tokenizer, vocabulary)) if ends.texts else None
    return Stops(ends.ids, table, next(policy.model.parameters()).device)
