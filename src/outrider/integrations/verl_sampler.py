"""A sampler that uses verl's inference servers. Experimental."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from outrider.errors import EngineLostError, UserError
from outrider.model.load import Policy
from outrider.record import Rollout, SampleRequest, StopReason
from outrider.sample.options import SampleOptions
from outrider.sample.requests import SampledTokens
from outrider.sample.vllm_requests import Job, VllmRequests

T = TypeVar("T")


class Client(Protocol):
    """The methods of verl's ``LLMServerClient`` that the sampler uses."""

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        """Return token ids, log-probabilities, the stop reason, and the version of the weights (``global_steps``)."""
        ...


class VerlSampler:
    """Samples every rollout with a separate request. If a rollout continues a prefix of another rollout, the request's
    prompt includes this prefix.

    Verl syncs the weights, and returns their version with every answer. If this version differs from the step's weight
    version, the run ends with an error. Verl limits the number of concurrent requests. A request that verl has lost is
    not retried, so no rollout is sampled twice.

    Attributes:
        version: the weight version with which rollouts must be sampled.
        context: the maximum total number of tokens in prompt and response.
    """

    engines = 1
    gives_entropies = False

    def __init__(self, client: Client, policy: Policy, options: SampleOptions, context: int) -> None:
        self.version = 0
        self.notices: list[str] = []
        self._client, self._tokenizer = client, policy.tokenizer
        self._requests = VllmRequests(policy, options)
        limits = self._requests.limits
        limits.context = self.context = min(limits.context, context)

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        """Sample ``n`` rollouts for each request, and return them in the order of the requests.

        Raises:
            UserError: a prompt is so long that the context has no room for a response, or a rollout was sampled with
                weights of another step.
            EngineLostError: the answer to a request is missing or incomplete.
        """
        jobs = self._requests.jobs(requests)
        answers = run_apart(self._answers(jobs))
        drawn = {(job.request, job.member): self._drawn(job, answer) for job, answer in zip(jobs, answers, strict=True)}
        return self._requests.rollouts(requests, drawn, self.version)

    def close(self) -> None:
        """Close the sampler. The call has no effect, since the sampler has no resources to free."""

    def take(self, version: int, export: Any) -> dict[str, int]:
        """Raise an error, since the sampler takes no weights: verl itself syncs them."""
        raise NotImplementedError("verl synchronises its servers itself")

    async def _answers(self, jobs: Sequence[Job]) -> list[Any]:
        return await asyncio.gather(*(self._answer(job) for job in jobs))

    async def _answer(self, job: Job) -> Any:
        # verl expects a boolean for "logprobs", so vLLM's 0 would mean False
        asked = {**job.asked, "logprobs": True}
        # verl sends requests with the same id to one server, so each request gets its own id
        request_id = f"outrider-{self.version}-{job.asked['seed']}"
        try:
            return await self._client.generate(request_id, prompt_ids=job.prompt, sampling_params=asked)
        except (UserError, asyncio.CancelledError):
            raise
        except Exception as error:  # any error of a remote server, since each backend has its own error classes
            raise EngineLostError(f"verl's servers did not answer: {type(error).__name__}: {error}") from error

    def _drawn(self, job: Job, answer: Any) -> SampledTokens:
        ids, logprobs = list(answer.token_ids), list(answer.log_probs or ())
        if answer.stop_reason != "completed" or not ids:
            raise EngineLostError(f"verl's servers ended a response of {len(ids)} tokens with {answer.stop_reason!r}")
        if len(ids) != len(logprobs):
            raise UserError(f"verl's servers gave {len(ids)} tokens and {len(logprobs)} log-probabilities")
        if (version := answer.extra_fields.get("global_steps")) != self.version:
            raise UserError(f"a response was drawn with weights of version {version}, and the step has {self.version}")
        return SampledTokens(np.array(ids, np.int32), np.array(logprobs, np.float32), None, self._stop(job, ids))

    def _stop(self, job: Job, ids: list[int]) -> StopReason:
        """Return why a response ended, inferred from its tokens, since verl does not report the reason."""
        if ids[-1] in job.asked["stop_token_ids"]:
            return StopReason.STOP
        text = self._tokenizer.decode(ids, skip_special_tokens=True) if job.asked["stop"] else ""
        if len(ids) < job.room.tokens or any(stop in text for stop in job.asked["stop"]):
            return StopReason.TEXT
        return job.room.reason


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a separate thread and return the result. The caller may itself run in an event loop."""
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            failed.append(error)

    thread = threading.Thread(target=run, name="outrider-verl")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
