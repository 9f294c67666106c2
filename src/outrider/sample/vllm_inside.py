"""Samples with vLLM in this process, with one vLLM request per rollout and a separate seed per request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from outrider.model.load import Policy
from outrider.record import Rollout, SampleRequest
from outrider.sample.options import SampleOptions
from outrider.sample.sampler import Export, NamedWeights
from outrider.sample.vllm_engine import VllmEngine
from outrider.sample.vllm_requests import VllmRequests, sampled_tokens


class VllmInside:
    """Samples with a vLLM engine in this process, which batches all requests. vLLM does not return entropies."""

    engines = 1
    gives_entropies = False

    def __init__(self, policy: Policy, options: SampleOptions, engine: VllmEngine) -> None:
        self._requests, self._engine = VllmRequests(policy, options), engine
        self.takes_adapter, self.notices = engine.takes_adapter, [*self._requests.notices, *engine.notices]
        self._counts: Counter[str] = Counter()
        self.version = 0

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Make the engine load the weights or the adapter from a folder, and drop the KV cache of the old weights.

        Returns the number of prompt tokens since the last call (``prompt_tokens``), and how many of them were in the
        prefix cache (``cached_tokens``).
        """
        (self._engine.load_adapter if self.takes_adapter else self._engine.reload)(export)
        return self._taken(version)

    def copy_weights(self, version: int, weights: NamedWeights) -> dict[str, int]:
        """Like :meth:`take`, but copy the weights from memory."""
        self._engine.copy(weights)
        return self._taken(version)

    def sleep(self) -> None:
        """Free the engine's GPU memory until the next weight sync, if ``engine.sampler.vllm.sleep`` is set."""
        self._engine.sleep()

    def _taken(self, version: int) -> dict[str, int]:
        self.version = version
        counts, self._counts = self._counts, Counter()
        return {name: counts[name] for name in ("prompt_tokens", "cached_tokens")}

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        jobs = self._requests.jobs(requests)
        sampled = {}
        for job, answer in zip(jobs, self._engine.complete(jobs), strict=True):
            [drawn] = answer.outputs
            self._counts.update(prompt_tokens=len(job.prompt), cached_tokens=answer.num_cached_tokens or 0)
            logprobs = [of[token].logprob for token, of in zip(drawn.token_ids, drawn.logprobs, strict=True)]
            ended = drawn.finish_reason, drawn.stop_reason
            sampled[job.request, job.member] = sampled_tokens(drawn.token_ids, logprobs, *ended, job.room, "vLLM")
        return self._requests.rollouts(requests, sampled, self.version)

    def close(self) -> None:
        """Shut the engine down, and delete the weight files of the last sync."""
        self._engine.close()
