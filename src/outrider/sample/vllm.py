"""Samples with vLLM servers, with one HTTP request per rollout and a separate seed per request."""

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
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.requests import SampledTokens
from outrider.sample.sampler import Export
from outrider.sample.synced_weights import MERGED, OnMain, SyncedWeights
from outrider.sample.vllm_requests import Job, VllmRequests, sampled_tokens
from outrider.sample.vllm_server import Holding, ServerLostError, VllmServer


class _Answer(NamedTuple):
    """A server's answer for one rollout. ``tokens`` is None if the server was lost."""

    server: VllmServer
    tokens: SampledTokens | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0


class _Given(NamedTuple):
    """Identifies this run's weights on a server. ``holding`` identifies the server's process and its last weight sync,
    and ``model`` is the model name that selects the weights."""

    holding: Holding
    model: str


class VllmSampler:
    """Samples over HTTP from one or several servers with the same weights.

    Requests are assigned to servers round-robin, with a different first server for each rank. All rollouts of a request
    go to the same server, so that they share the cached prompt or prefix. A server is excluded until the next weight
    sync if it does not answer. It is also excluded if it no longer has this run's weights, because it was restarted or
    another run has synced its weights. The requests of an excluded server are retried on other servers with the same
    seeds, and answers from the excluded server are discarded.

    vLLM does not return entropies.

    Args:
        rank: rank of this process within the run.

    Raises:
        UserError: a server does not answer, or cannot be used for this policy.
    """

    gives_entropies = False

    def __init__(
        self,
        policy: Policy,
        options: SampleOptions,
        engine: Vllm,
        on_main: OnMain = lambda make: make(),
        rank: int = 0,
    ) -> None:
        self._requests, self._on_main = VllmRequests(policy, options), on_main
        turn = rank % len(engine.servers)
        addresses = [*engine.servers[turn:], *engine.servers[:turn]]
        self._servers = [VllmServer(address, engine.seconds) for address in addresses]
        for server in self._servers:
            server.open(self._requests.limits.context)
        self._given: dict[str, _Given] = {}  # by address: the weights of each active server
        self._known: dict[str, Holding] = {}  # by address, on rank 0: last known weights of each server, active or not
        self._lost = ""  # reason why the most recently lost server was lost
        self._counts: Counter[str] = Counter()
        self.version = 0
        self._weights = SyncedWeights(engine.folder, on_main)
        self.notices = [*self._requests.notices, *self._weights.notices]
        self._beneath = SyncedWeights(engine.folder, on_main)  # base weights without the adapter, for restarted servers
        self.takes_adapter = False
        try:
            if adapter_outputs(policy.model):
                self._offer(policy.model)
        except BaseException:
            self._remove_weights()
            raise
        self._pool = ThreadPoolExecutor(engine.in_flight * len(self._servers), thread_name_prefix="vllm")

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Write the weights once, and make every server load the weights. A server that was lost and now answers is
        used again.

        Returns three counts since the last call. ``prompt_tokens`` is the number of prompt tokens. ``cached_tokens`` is
        the number of prompt tokens found in a server's prefix cache. ``retries`` is the number of rollouts that were
        requested again because their server was lost.

        Raises:
            EngineLostError: no server is left.
        """
        self._weights.write(export)  # safe: every server has read the previous weights, or is lost
        # broadcast to every rank, including the model names: a rank without the adapter's name would sample without the
        # adapter
        self._given = self._on_main(self._give)
        self.version = version
        counts, self._counts = self._counts, Counter()
        return {name: counts[name] for name in ("prompt_tokens", "cached_tokens", "retries")}

    @property
    def engines(self) -> int:
        return len(self._given)

    def _give(self) -> dict[str, _Given]:
        given = {}
        for server in self._servers:
            try:
                given[server.address] = self._give_to(server)
                self._known[server.address] = given[server.address].holding
            except ServerLostError as error:
                self._say_lost(server, str(error))
            except UserError as error:
                if server.address not in self._known:  # at the run's start, so that the user can fix it
                    raise
                self._say_lost(server, str(error))
        self._refuse_none(given)
        return given

    def _give_to(self, server: VllmServer) -> _Given:
        folder = self._weights.given
        known = server.holding() == self._known.get(server.address)
        server.claim(folder.name)
        if not known:
            server.open(self._requests.limits.context)
            if self.takes_adapter:
                server.reload(self._beneath.given)
        (server.load_adapter if self.takes_adapter else server.reload)(folder)
        holding = server.holding()
        if holding.claim not in ("", folder.name):
            raise ServerLostError("another run gives it weights")
        return _Given(holding, server.model)

    def _offer(self, model: PreTrainedModel) -> None:
        """Make every server load the model's adapter. If all servers have loaded it, write the base weights to a folder
        for later syncs.

        If a server rejects the adapter, add a notice with the reason. Later syncs then send merged weights.
        """
        self._weights.write(lambda folder: self._on_main(lambda: write_adapter(model, folder)))
        refused = self._on_main(self._refused)
        if refused:
            self.notices.append(f"{refused}; {MERGED}")
            return
        self.takes_adapter = True
        self._beneath.write(lambda folder: self._on_main(lambda: write_weights(without_adapter(model), folder)))

    def _refused(self) -> str:
        """Return the reason why a server does not load the adapter. The result is empty if all servers load the
        adapter."""
        for server in self._servers:
            try:
                server.load_adapter(self._weights.given)
            except (UserError, ServerLostError) as error:  # vLLM reports an unloadable adapter as a server error
                return f"the vLLM server {server.address} takes no adapters of this policy ({error})"
        return ""

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        jobs = self._requests.jobs(requests)
        sampled: dict[tuple[int, int], SampledTokens] = {}
        first = True
        while jobs:
            self._refuse_none(self._given)
            there = [server for server in self._servers if server.address in self._given]
            self._counts["retries"] += 0 if first else len(jobs)
            answers = list(self._pool.map(self._ask, [there[job.request % len(there)] for job in jobs], jobs))
            for server in there:
                self._still_has(server)
            for job, answer in zip(jobs, answers, strict=True):
                # counted here and not in the threads, since concurrent additions could be lost
                self._counts.update(prompt_tokens=answer.prompt_tokens, cached_tokens=answer.cached_tokens)
                if answer.tokens is not None and answer.server.address in self._given:
                    sampled[job.request, job.member] = answer.tokens
            jobs = [job for job in jobs if (job.request, job.member) not in sampled]
            first = False
        return self._requests.rollouts(requests, sampled, self.version)

    def close(self) -> None:
        """End all threads, even those that wait for a server, and remove the weights of the last sync."""
        for server in self._servers:
            server.close()
        self._pool.shutdown(cancel_futures=True)
        self._remove_weights()

    def _remove_weights(self) -> None:
        self._weights.remove()
        self._beneath.remove()

    def _ask(self, server: VllmServer, job: Job) -> _Answer:
        """Request a rollout from a server, and exclude the server if it is lost."""
        given = self._given.get(server.address)
        if given is None:
            return _Answer(server)
        asked = {"model": given.model, "prompt": job.prompt, "return_token_ids": True, **job.asked}
        try:
            answer = server.complete(asked)
        except ServerLostError as error:
            self._leave_out(server, str(error))
            return _Answer(server)
        except UserError:
            if self._still_has(server):
                raise
            return _Answer(server)  # a restarted server does not know the adapter's name
        usage = answer.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        choice = answer["choices"][0]
        ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        ended = choice["finish_reason"], choice.get("stop_reason")
        tokens = sampled_tokens(ids, logprobs, *ended, job.room, server.address)
        return _Answer(server, tokens, usage.get("prompt_tokens", 0), cached)

    def _still_has(self, server: VllmServer) -> bool:
        """Check whether an active server still has this run's weights, and exclude the server if not."""
        given = self._given.get(server.address)
        if given is None:
            return False
        try:
            now = server.holding()
        except (ServerLostError, UserError) as error:
            self._leave_out(server, str(error))
            return False
        if now != given.holding:
            restarted = now.start != given.holding.start
            self._leave_out(server, "it was restarted" if restarted else "another run gave it weights")
        return now == given.holding

    def _leave_out(self, server: VllmServer, reason: str) -> None:
        if self._given.pop(server.address, None) is not None:  # only the first thread that notices reports it
            self._say_lost(server, reason)

    def _say_lost(self, server: VllmServer, reason: str) -> None:
        self._lost = f"{server.address}: {reason}"
        self.notices.append(f"the vLLM server {self._lost}; it gets no requests until the next weight sync")

    def _refuse_none(self, given: dict[str, _Given]) -> None:
        if not given:
            raise EngineLostError(f"no vLLM server is left (the last was {self._lost})")
