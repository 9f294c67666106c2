"""Sampling by vLLM servers: every rollout is a request of its own, with its own seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from transformers import PreTrainedModel

from outrider.errors import EngineLostError, UserError
from outrider.model.load import Policy
from outrider.model.lora import adapter_outputs, without_adapter, write_adapter
from outrider.model.weights_file import write_weights
from outrider.record import Rollout, SampleRequest
from outrider.sample.handed_weights import MERGED, HandedWeights, OnMain
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.requests import SampledTokens
from outrider.sample.sampler import Export
from outrider.sample.vllm_requests import Job, VllmRequests, sampled_tokens
from outrider.sample.vllm_server import ServerLostError, VllmServer


class _Answer(NamedTuple):
    """What a server gave for one rollout; without tokens where it was lost."""

    server: VllmServer
    tokens: SampledTokens | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0


class VllmSampler:
    """Draws over HTTP, from one or several servers with the same weights.

    Requests go round the servers in turn, all members of one request to the same one, whose cache then holds their
    prompt, or the prefix of their branch. A server that does not answer, or whose process is not the one that the
    weights were given to, is left out until the next weights come; what was asked of it is asked of the others, with
    the same identities, and only one answer of each counts.

    vLLM gives no entropies.

    Raises:
        UserError: a server does not answer, or is not fit.
    """

    gives_entropies = False

    def __init__(
        self, policy: Policy, options: SampleOptions, engine: Vllm, on_main: OnMain = lambda make: make()
    ) -> None:
        self._requests, self._on_main = VllmRequests(policy, options), on_main
        self._weights = HandedWeights(engine.folder, on_main)
        self._servers = [VllmServer(address, engine.seconds) for address in engine.servers]
        for server in self._servers:
            server.open(self._requests.limits.context)
        self.engines = len(self._servers)
        self.notices = list(self._weights.notices)
        self.takes_adapter = False
        if adapter_outputs(policy.model):
            self._weights.renew()
            refused = on_main(lambda: self._offer(policy.model))
            self.takes_adapter = not refused
            if refused:
                self.notices.append(f"{refused}; {MERGED}")
        self._pool = ThreadPoolExecutor(engine.in_flight * self.engines, thread_name_prefix="vllm")
        self._started: dict[str, str] = {}  # address to the start of the process that has the present weights
        self._lost = ""  # how the last lost server was lost
        self._counts: Counter[str] = Counter()
        self.version = 0

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Write the weights once and have every server read them; lost ones that are back are used again.

        Returns counts of the requests since the last time: ``prompt_tokens``, ``cached_tokens`` of them that came from
        a server's cache, ``asked_again``, rollouts whose server was lost.

        Raises:
            EngineLostError: no server is left.
        """
        export(self._weights.renew())  # every server has read the last ones, or is lost
        self._started = self._on_main(self._reload)
        self.version = version
        counts, self._counts = self._counts, Counter()
        return {name: counts[name] for name in ("prompt_tokens", "cached_tokens", "asked_again")}

    @property
    def engines_used(self) -> int:
        return len(self._started)

    def _reload(self) -> dict[str, str]:
        started = {}
        for server in self._servers:
            try:
                (server.load_adapter if self.takes_adapter else server.reload)(self._weights.given)
                started[server.address] = server.started()
            except ServerLostError as error:
                self._say_lost(server, str(error))
        self._refuse_none(started)
        return started

    def _offer(self, model: PreTrainedModel) -> str:
        """Have every server load the model's adapter, and read the weights beneath it; why not, where one refuses."""
        folder = self._weights.given
        write_adapter(model, folder)
        for server in self._servers:
            try:
                server.load_adapter(folder)
            except (UserError, ServerLostError) as error:  # what vLLM cannot load is a failure of the server to it
                return f"the vLLM server {server.address} takes no adapters of this policy ({error})"
        beneath = folder / "beneath"
        beneath.mkdir()
        write_weights(without_adapter(model), beneath)
        for server in self._servers:
            server.reload(beneath)
        return ""

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        jobs = self._requests.jobs(requests)
        sampled: dict[tuple[int, int], SampledTokens] = {}
        first = True
        while jobs:
            self._refuse_none(self._started)
            there = [server for server in self._servers if server.address in self._started]
            self._counts["asked_again"] += 0 if first else len(jobs)
            answers = list(self._pool.map(self._ask, [there[job.request % len(there)] for job in jobs], jobs))
            self._leave_out_restarted(there)
            for job, answer in zip(jobs, answers, strict=True):
                # here and not in the threads, where two additions at once would count as one
                self._counts.update(prompt_tokens=answer.prompt_tokens, cached_tokens=answer.cached_tokens)
                if answer.tokens is not None and answer.server.address in self._started:
                    sampled[job.request, job.member] = answer.tokens
            jobs = [job for job in jobs if (job.request, job.member) not in sampled]
            first = False
        return self._requests.rollouts(requests, sampled, self.version)

    def close(self) -> None:
        """End the threads, also where one waits for a server, and remove the weights that were handed over."""
        for server in self._servers:
            server.close()
        self._pool.shutdown(cancel_futures=True)
        self._weights.remove()

    def _ask(self, server: VllmServer, job: Job) -> _Answer:
        """The tokens of a rollout; a server that is lost is left out."""
        if server.address not in self._started:
            return _Answer(server)
        try:
            answer = server.complete({"prompt": job.prompt, "return_token_ids": True, **job.asked})
        except ServerLostError as error:
            self._leave_out(server, str(error))
            return _Answer(server)
        usage = answer.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        choice = answer["choices"][0]
        ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        ended = choice["finish_reason"], choice.get("stop_reason")
        tokens = sampled_tokens(ids, logprobs, *ended, job.room, server.address)
        return _Answer(server, tokens, usage.get("prompt_tokens", 0), cached)

    def _leave_out_restarted(self, servers: Sequence[VllmServer]) -> None:
        for server in servers:
            if server.address in self._started:
                try:
                    if server.started() != self._started[server.address]:
                        self._leave_out(server, "it was restarted")
                except ServerLostError as error:
                    self._leave_out(server, str(error))

    def _leave_out(self, server: VllmServer, reason: str) -> None:
        if self._started.pop(server.address, None) is not None:  # by the first of its threads
            self._say_lost(server, reason)

    def _say_lost(self, server: VllmServer, reason: str) -> None:
        self._lost = f"{server.address}: {reason}"
        self.notices.append(f"the vLLM server {self._lost}; it is left out until the next weights come")

    def _refuse_none(self, started: dict[str, str]) -> None:
        if not started:
            raise EngineLostError(f"no vLLM server is left (the last was {self._lost})")
