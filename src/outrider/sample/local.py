"""The local sampler: a causal language model of transformers, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from outrider.errors import UserError
from outrider.model.device import engine
from outrider.model.load import Policy, context_length, tokens_of
from outrider.record import Ids, Rollout, SampleRequest, SamplingParams, StopReason
from outrider.sample.decoder import Decoder, PackedDecoder
from outrider.sample.fused import FusedDecoder
from outrider.sample.options import SampleOptions
from outrider.sample.plain import PlainDecoder
from outrider.sample.stop import Stops, StopTable, special_tokens, token_bytes
from outrider.sample.wave import SampledTokens, Wave, WaveRow, decode_wave

_NONE = np.zeros(0, np.int32)


class LocalSampler:
    """Decodes waves of rows over one key-value store.

    Each distinct context (a prompt, or a prompt and another rollout's prefix) is prefilled once in a call, and its keys
    and values are copied to all rows that continue it. Finished rows are dropped as a wave thins out.
    """

    def __init__(self, policy: Policy, options: SampleOptions) -> None:
        self.tokenizer, self.options = policy.tokenizer, options
        self.context, self.tokens = context_length(policy.model), tokens_of(policy.model)
        self.device = next(policy.model.parameters()).device
        self.stops = stops_of(policy, options.stop)
        self.decoder = decoder_of(policy)
        self.version = 0
        self.prefilled_tokens = 0

    def updated(self, version: int) -> None:
        self.version = version
        self.decoder.updated()

    @torch.inference_mode()
    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        tokens_of_member: dict[tuple[int, int], SampledTokens] = {}
        # one wave has one set of sampling parameters; in the order in which they first occur
        for params in dict.fromkeys(self._params(request) for request in requests):
            chosen = [i for i, request in enumerate(requests) if self._params(request) == params]
            for wave in self._waves(requests, chosen, params):
                sampled = decode_wave(self.decoder, wave, params, self.stops, self.options.rows, self.device)
                members = [(row.request, row.sibling) for row in wave.flat()]
                tokens_of_member.update(zip(members, sampled, strict=True))
                self.prefilled_tokens += sum(map(len, wave.contexts))
        # in the order of the requests, whatever the order of the waves
        return self._rollouts(requests, tokens_of_member)

    def _params(self, request: SampleRequest) -> SamplingParams:
        return request.params or self.options.params()

    def _waves(self, requests: Sequence[SampleRequest], chosen: list[int], params: SamplingParams) -> Iterator[Wave]:
        """Contexts in order of length, filled up to ``options.rows`` rows; a context is never split over waves."""
        # by the bytes of the ids: several requests for one prompt, or for one prefix, share one prefill
        contexts: dict[bytes, tuple[Ids, list[WaveRow]]] = {}
        for i in chosen:
            request = requests[i]
            ids = _context(request)
            budget = params.max_tokens - len(_prefix(request))
            limit = min(budget, self.context - len(ids))
            reason = StopReason.LENGTH if limit == budget else StopReason.CONTEXT
            if limit < 1:
                raise UserError(
                    f"problem {request.problem.id!r}: its context of {len(ids)} tokens leaves no room to respond "
                    f"(model context {self.context}, sample.max_tokens {params.max_tokens})"
                )
            self._refuse_unknown(request, int(ids.max()))
            rows = contexts.setdefault(ids.tobytes(), (ids, []))[1]
            stop_state = self.stops.after(_prefix(request))
            rows.extend(WaveRow(i, k, request.rollout_seed(k), limit, reason, stop_state) for k in range(request.n))
        wave = Wave([], [])
        # neighbours in length need the least padding; the sort is stable, so waves do not depend on chance
        for ids, rows in sorted(contexts.values(), key=lambda item: -len(item[0])):
            full = sum(map(len, wave.rows)) + len(rows) > self.options.rows
            if wave.rows and (full or not self.decoder.batchable([*wave.contexts, ids])):
                yield wave
                wave = Wave([], [])
            wave.contexts.append(ids)
            wave.rows.append(rows)
        if wave.rows:
            yield wave

    def _refuse_unknown(self, request: SampleRequest, token: int) -> None:
        """A tokenizer may write tokens that its model has no embedding for."""
        if token >= self.tokens:
            raise UserError(
                f"problem {request.problem.id!r}: its context has {self.tokenizer.decode([token])!r}, token {token} of "
                f"the tokenizer, and the model has {self.tokens} tokens"
            )

    def _rollouts(
        self, requests: Sequence[SampleRequest], tokens_of_member: dict[tuple[int, int], SampledTokens]
    ) -> list[Rollout]:
        keys = [(i, k) for i, request in enumerate(requests) for k in range(request.n)]
        texts = decode(self.tokenizer, [tokens_of_member[key].ids for key in keys])
        prefix_texts = {i: decode(self.tokenizer, [r.prefix.ids])[0] for i, r in enumerate(requests) if r.prefix}
        return [
            Rollout(
                problem_id=requests[i].problem.id,
                group_id=requests[i].group_id,
                member=requests[i].first_member + k,
                prompt_ids=_prompt(requests[i]),
                token_ids=tokens_of_member[i, k].ids,
                logprobs_T=tokens_of_member[i, k].logprobs,
                entropies_T=tokens_of_member[i, k].entropies,
                prefix_ids=_prefix(requests[i]),
                mode=self._params(requests[i]).logprob_mode,
                parent=prefix.parent if (prefix := requests[i].prefix) else None,
                context=requests[i].context,
                stream=requests[i].stream,
                stage=requests[i].stage,
                policy_version=self.version,
                seed=requests[i].rollout_seed(k),
                stop=tokens_of_member[i, k].stop,
                text=text,
                prefix_text=prefix_texts.get(i, ""),
            )
            for (i, k), text in zip(keys, texts, strict=True)
        ]


def decoder_of(policy: Policy) -> Decoder[Any]:
    """The decoder of the policy's path."""
    dtype = engine(policy.options.dtype).dtype
    if policy.path.name == "plain":
        return PlainDecoder(policy.model, dtype, policy.path.left_pads)
    return FusedDecoder(policy.model, dtype) if policy.path.name == "fused" else PackedDecoder(policy.model, dtype)


def stops_of(policy: Policy, texts: Sequence[str] = ()) -> Stops:
    """What ends a response: the tokenizer's end token, those of the model's generation settings, and ``texts``. One
    that is a special token, which no text of a response shows, ends it as a token."""
    configured = getattr(policy.model.generation_config, "eos_token_id", None)
    more = configured if isinstance(configured, list) else [configured]
    special = special_tokens(policy.tokenizer) if texts else {}
    stop_tokens = [special[text] for text in texts if text in special]
    ids = sorted({int(i) for i in [policy.tokenizer.eos_token_id, *more, *stop_tokens] if i is not None})
    stop_texts = [text for text in texts if text not in special]
    vocabulary = policy.model.get_output_embeddings().weight.shape[0]
    table = StopTable(stop_texts, token_bytes(policy.tokenizer, vocabulary)) if stop_texts else None
    return Stops(ids, table, next(policy.model.parameters()).device)


def decode(tokenizer: PreTrainedTokenizerBase, ids: Sequence[Ids]) -> list[str]:
    """Texts without special tokens."""
    # transformers would take an empty batch for one empty text
    return list(tokenizer.batch_decode([i.tolist() for i in ids], skip_special_tokens=True)) if len(ids) else []


def _prompt(request: SampleRequest) -> Ids:
    if request.prompt_ids is None:
        raise ValueError(f"request for {request.problem.id!r} reached the sampler without token ids")
    return request.prompt_ids


def _prefix(request: SampleRequest) -> Ids:
    return _NONE if request.prefix is None else request.prefix.ids


def _context(request: SampleRequest) -> Ids:
    return np.concatenate([_prompt(request), _prefix(request)]).astype(np.int32)
