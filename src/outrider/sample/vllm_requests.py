"""Requests to vLLM and their answers, for vLLM servers and for vLLM in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from outrider.errors import UserError
from outrider.model.load import Policy
from outrider.record import RAW, Mode, Rollout, SampleRequest, SamplingParams, StopReason
from outrider.sample.options import SampleOptions
from outrider.sample.requests import PolicyLimits, Room, SampledTokens, context_of, rollouts_of
from outrider.sample.stop import ends_of


class Job(NamedTuple):
    """A rollout that vLLM must sample.

    Attributes:
        request: index of the request.
        member: index of the rollout within the request.
        room: maximum number of tokens to sample for the rollout.
        prompt: token ids of the context.
        asked: sampling parameters, under the names that vLLM uses.
    """

    request: int
    member: int
    room: Room
    prompt: list[int]
    asked: dict[str, Any]


_NEAR_TIES = (
    "vLLM in bfloat16: concurrent requests change the last bits of log-probabilities, so equal runs may sample "
    "different rollouts, unless it runs with VLLM_BATCH_INVARIANT=1"
)

TokensOf = Mapping[tuple[int, int], SampledTokens]
"""The sampled tokens of each rollout; the keys are (index of the request, index of the rollout in the request)."""


class VllmRequests:
    """Converts requests for rollouts to jobs for vLLM, and sampled tokens to rollouts.

    Every job is a vLLM request for one rollout, with its own seed. Log-probabilities refer to the sampling distribution
    (vLLM's ``processed_logprobs``).

    Attributes:
        notices: messages for the user, such as the warning that concurrent requests can change which tokens are sampled
            in bfloat16.
    """

    def __init__(self, policy: Policy, options: SampleOptions) -> None:
        self.limits = PolicyLimits(policy)
        self.notices = [] if policy.options.dtype == "float32" else [_NEAR_TIES]
        self._tokenizer, self._options = policy.tokenizer, options
        self._ends = ends_of(policy, options.stop)

    def jobs(self, requests: Sequence[SampleRequest]) -> list[Job]:
        """Create one job per rollout, in order.

        Raises:
            UserError: a context leaves no room for a response, or has a token outside the model's vocabulary.
        """
        return [job for i, request in enumerate(requests) for job in self._jobs(i, request)]

    def rollouts(self, requests: Sequence[SampleRequest], drawn: TokensOf, version: int) -> list[Rollout]:
        """Build the rollouts of the requests from sampled tokens, in order."""
        modes = [_mode(self._params(request)) for request in requests]
        return rollouts_of(requests, drawn, modes, version, self._tokenizer)

    def _jobs(self, index: int, request: SampleRequest) -> list[Job]:
        params = self._params(request)
        room = self.limits.room(request, params)
        prompt = context_of(request).tolist()
        asked = {
            "max_tokens": room.tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            # otherwise a server would use the model's generation_config.json, and sample from another distribution
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "logprobs": 0,  # only of the sampled token
            "stop": self._ends.texts,
            "stop_token_ids": self._ends.ids,
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
        }
        return [Job(index, k, room, prompt, {**asked, "seed": request.rollout_seed(k)}) for k in range(request.n)]

    def _params(self, request: SampleRequest) -> SamplingParams:
        return request.params or self._options.params()


def _mode(params: SamplingParams) -> Mode:
    return Mode(params.temperature, params.top_p, params.top_k) if params.temperature > 0 else RAW


def sampled_tokens(
    ids: Sequence[int], logprobs: Sequence[float], finish: str | None, stop: int | str | None, room: Room, who: str
) -> SampledTokens:
    """Check and convert vLLM's answer to a job, including its ``finish_reason`` and ``stop_reason``.

    Raises:
        UserError: the response is incomplete, or log-probabilities are missing. The message names ``who`` as the source
            of the response.
    """
    if len(ids) != len(logprobs) or not ids:
        raise UserError(f"{who} gives {len(ids)} tokens and {len(logprobs)} log-probabilities")
    if finish not in ("stop", "length"):
        raise UserError(f"{who} ended a response with {finish!r}")
    by_text = isinstance(stop, str)
    reason = room.reason if finish == "length" else StopReason.TEXT if by_text else StopReason.STOP
    return SampledTokens(np.array(ids, np.int32), np.array(logprobs, np.float32), None, reason)
