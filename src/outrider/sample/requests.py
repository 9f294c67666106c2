"""Helpers that samplers share: they compute the contexts and limits of requests, and build rollouts from sampled
tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from outrider.errors import UserError
from outrider.model.load import Policy, context_length, tokens_of
from outrider.record import Ids, Mode, Rollout, SampleRequest, SamplingParams, StopReason
from outrider.texts import MARKS

_NONE = np.zeros(0, np.int32)


class SampledTokens(NamedTuple):
    """The sampled tokens of one rollout, with per-token statistics.

    Attributes:
        logprobs: float32, under the distribution that :attr:`Rollout.mode` describes (temperature, top_p and top_k).
        entropies: float32, in nats, or None if the engine does not return entropies.
    """

    ids: Ids
    logprobs: NDArray[np.float32]
    entropies: NDArray[np.float32] | None
    stop: StopReason


class Room(NamedTuple):
    """The maximum number of tokens to sample for a rollout (at least 1), and the stop reason if this limit is
    reached."""

    tokens: int
    reason: StopReason


def prompt_of(request: SampleRequest) -> Ids:
    """Return the token ids of the prompt."""
    if request.prompt_ids is None:
        raise ValueError(f"the request for {request.problem.id!r} has no token ids")
    return request.prompt_ids


def prefix_of(request: SampleRequest) -> Ids:
    """Return the token ids of the request's prefix, which is the start of another rollout's response. The requested
    rollout continues this prefix. The result is empty if the request has no prefix."""
    return _NONE if request.prefix is None else request.prefix.ids


def context_of(request: SampleRequest) -> Ids:
    """Return all token ids before the sampled tokens (prompt and prefix), as int32."""
    return np.concatenate([prompt_of(request), prefix_of(request)]).astype(np.int32)


class PolicyLimits:
    """The limits of a policy: its context length and its vocabulary size."""

    def __init__(self, policy: Policy) -> None:
        self.context, self.tokens = context_length(policy.model), tokens_of(policy.model)
        self._tokenizer = policy.tokenizer

    def room(self, request: SampleRequest, params: SamplingParams) -> Room:
        """Return the maximum number of tokens to sample for a request, and the stop reason at this limit.

        Raises:
            UserError: there is no room for a response, or the context has a token id beyond the model's vocabulary.
        """
        ids = context_of(request)
        budget = params.max_tokens - len(prefix_of(request))
        limit = min(budget, self.context - len(ids))
        if limit < 1:
            full = (
                f"the model's context of {self.context:,}"
                if self.context - len(ids) < 1
                else f"the {params.max_tokens:,} of a response"
            )
            raise UserError(f"problem {request.problem.id!r}: {len(ids):,} tokens so far leave no room in {full}")
        if (token := int(ids.max())) >= self.tokens:
            raise UserError(
                f"problem {request.problem.id!r}: its context has {self._tokenizer.decode([token])!r}, token {token} "
                f"of the tokenizer, and the model has {self.tokens} tokens"
            )
        return Room(limit, StopReason.LENGTH if limit == budget else StopReason.CONTEXT)


def rollouts_of(
    requests: Sequence[SampleRequest],
    sampled: Mapping[tuple[int, int], SampledTokens],
    modes: Sequence[Mode],
    version: int,
    tokenizer: PreTrainedTokenizerBase,
) -> list[Rollout]:
    """Build the rollouts of all requests, in order.

    The keys of ``sampled`` are (index of the request, index of the rollout in its group). ``modes`` and ``requests``
    have the same order.
    """
    keys = [(i, k) for i, request in enumerate(requests) for k in range(request.n)]
    texts = decode(tokenizer, [sampled[key].ids for key in keys])
    prefixes = {i: r.prefix.ids for i, r in enumerate(requests) if r.prefix}
    prefix_texts = dict(zip(prefixes, decode(tokenizer, list(prefixes.values())), strict=True))
    return [
        Rollout(
            problem_id=requests[i].problem.id,
            group_id=requests[i].group_id,
            member=requests[i].first_member + k,
            prompt_ids=prompt_of(requests[i]),
            token_ids=sampled[i, k].ids,
            logprobs_T=sampled[i, k].logprobs,
            entropies_T=sampled[i, k].entropies,
            prefix_ids=prefix_of(requests[i]),
            mode=modes[i],
            parent=prefix.parent if (prefix := requests[i].prefix) else None,
            context=requests[i].context,
            stream=requests[i].stream,
            stage=requests[i].stage,
            policy_version=version,
            seed=requests[i].rollout_seed(k),
            stop=sampled[i, k].stop,
            text=text,
            prefix_text=prefix_texts.get(i, ""),
        )
        for (i, k), text in zip(keys, texts, strict=True)
    ]


def decode(tokenizer: PreTrainedTokenizerBase, ids: Sequence[Ids]) -> list[str]:
    """Decode token ids to text, leaving out special tokens. Reasoning tags are kept, even if the tokenizer defines them
    as special tokens.

    Without the tags, an answer could not be separated from the reasoning.
    """
    if not len(ids):  # transformers would treat an empty batch as one empty text
        return []
    if (hidden := _hidden(tokenizer)) is None:
        return list(tokenizer.batch_decode([i.tolist() for i in ids], skip_special_tokens=True))
    return list(tokenizer.batch_decode([[token for token in i.tolist() if token not in hidden] for i in ids]))


@lru_cache(4)
def _hidden(tokenizer: PreTrainedTokenizerBase) -> frozenset[int] | None:
    """Return the ids of the special tokens other than reasoning tags, or None if no reasoning tag is a special
    token."""
    marks = {mark for pair in MARKS.items() for mark in pair}
    added = getattr(tokenizer, "added_tokens_decoder", {})  # custom tokenizers may lack the attribute
    special = {i: str(token) for i, token in added.items() if token.special}
    if not marks & set(special.values()):
        return None
    special |= zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    return frozenset(i for i, text in special.items() if text not in marks)
