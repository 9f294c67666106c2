"""Sampling by a Tinker service."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from outrider.errors import EngineLostError
from outrider.model.load import Policy
from outrider.model.tinker_service import ServiceRollout, TinkerService
from outrider.record import RAW, Rollout, SampleRequest, SamplingParams, StopReason
from outrider.record.identity import identity_seed
from outrider.sample.options import SampleOptions
from outrider.sample.requests import PolicyLimits, Room, SampledTokens, context_of, rollouts_of
from outrider.sample.sampler import Export
from outrider.sample.stop import ends_of


class TinkerSampler:
    """Samples on the service that trains the policy.

    All rollouts of a request are requested together, so the service prefills the prompt only once. The service uses
    consecutive seeds for a request's rollouts. Rollout ``m`` of a group has the group's seed plus ``m``, so later
    requests for the same group do not repeat seeds. The service returns log-probabilities under the raw distribution
    (temperature 1, not truncated), and no entropies.
    """

    gives_entropies = False
    engines = 1

    def __init__(self, policy: Policy, options: SampleOptions, service: TinkerService) -> None:
        self._limits, self._tokenizer, self._options = PolicyLimits(policy), policy.tokenizer, options
        self._ends, self._service = ends_of(policy).ids, service
        self.notices: list[str] = []
        self._prompt_tokens = 0
        self.version = 0

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Make the service sample with the current trained weights.

        Returns ``prompt_tokens``, the number of prompt tokens in the requests since the last call.

        Raises:
            EngineLostError: the service fails.
        """
        self._service.sync_weights()
        self.version = version
        counts = {"prompt_tokens": self._prompt_tokens}
        self._prompt_tokens = 0
        return counts

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        return [rollout for rollouts in self.arriving(requests) for rollout in rollouts]

    def arriving(self, requests: Sequence[SampleRequest]) -> Iterator[list[Rollout]]:
        """Yield the rollouts of each request, in order, while later requests are in flight."""
        rooms = [self._limits.room(request, self._params(request)) for request in requests]
        asked = [
            (context_of(request), request.n, self._asked(request, room))
            for request, room in zip(requests, rooms, strict=True)
        ]
        self._prompt_tokens += sum(len(prompt) for prompt, *_ in asked)
        for request, room, members in zip(requests, rooms, self._service.sample(asked), strict=True):
            if len(members) != request.n:
                raise EngineLostError(f"the Tinker service returned {len(members)} rollouts instead of {request.n}")
            drawn = {(0, k): self._tokens(one, room) for k, one in enumerate(members)}
            yield rollouts_of([request], drawn, [RAW], self.version, self._tokenizer)

    def close(self) -> None:
        """End the service session, which the learner shares."""
        self._service.close()

    def _asked(self, request: SampleRequest, room: Room) -> dict[str, Any]:
        params = self._params(request)
        return {
            "max_tokens": room.tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k or -1,
            "seed": first_seed(request),
            "stop": self._ends,
        }

    def _params(self, request: SampleRequest) -> SamplingParams:
        return request.params or self._options.params()

    def _tokens(self, one: ServiceRollout, room: Room) -> SampledTokens:
        if not one.ids or len(one.ids) != len(one.logprobs):
            raise EngineLostError(
                f"the Tinker service gives {len(one.ids)} tokens and {len(one.logprobs)} log-probabilities of a rollout"
            )
        ended = one.ids[-1] in self._ends  # true even if the end token is the last token within the limit
        if any(token in self._ends for token in one.ids[:-1]) or not (ended or len(one.ids) == room.tokens):
            raise EngineLostError(
                "the Tinker service ended a response at no end token, or went on behind one: it stops at other tokens "
                "than it was told"
            )
        if not all(map(math.isfinite, one.logprobs)):
            raise EngineLostError("the Tinker service returned a NaN log-probability")
        reason = StopReason.STOP if ended else room.reason
        return SampledTokens(np.array(one.ids, np.int32), np.array(one.logprobs, np.float32), None, reason)


def first_seed(request: SampleRequest) -> int:
    """Return the seed of a request's first rollout, which is below 2**31. The other rollouts have consecutive seeds.

    >>> from outrider.record import Problem
    >>> problem = Problem("a", "1 + 1 =", {})
    >>> early, late = (SampleRequest(problem, n=4, group_id="g", first_member=m) for m in (0, 4))
    >>> first_seed(late) - first_seed(early)
    4
    """
    parent, at = ("", 0) if request.prefix is None else (request.prefix.parent, request.prefix.branch_at)
    # 30 bits, so that the seeds of all rollouts stay below 2**31
    return identity_seed(request.seed, request.group_id, parent, at) % 2**30 + request.first_member
