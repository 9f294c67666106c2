"""Sampling by vLLM servers: every rollout is a request of its own, with its own seed."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from outrider.errors import UserError
from outrider.model.load import Policy
from outrider.record import RAW, Mode, Rollout, SampleRequest, SamplingParams, StopReason
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.requests import PolicyLimits, Room, SampledTokens, context_of, rollouts_of
from outrider.sample.sampler import EngineLostError, Export
from outrider.sample.stop import ends_of
from outrider.sample.vllm_server import ServerLostError, VllmServer


class _Answer(NamedTuple):
    """What a server gave for one rollout; without tokens where it was lost."""

    server: VllmServer
    tokens: SampledTokens | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0


class _Job(NamedTuple):
    """One rollout to be drawn: its request, member and room, and what a server is asked."""

    request: int
    member: int
    room: Room
    body: dict[str, Any]


class VllmSampler:
    """Draws over HTTP, from one or several servers with the same weights.

    Requests go round the servers in turn, all members of one request to the same one, whose cache then holds their
    prompt, or the prefix of their branch. A server that does not answer, or whose process is not the one that the
    weights were given to, is left out until the next weights come; what was asked of it is asked of the others, with
    the same identities, and only one answer of each counts.

    Log-probabilities are those of the distribution that was sampled from, ``processed_logprobs``. vLLM gives no
    entropies.

    Args:
        on_main: calls a function on one process of the run and gives its result to all.

    Raises:
        UserError: a server does not answer, or is not fit.
    """

    gives_entropies = False

    def __init__(
        self,
        policy: Policy,
        options: SampleOptions,
        engine: Vllm,
        on_main: Callable[[Callable[[], Any]], Any] = lambda make: make(),
    ) -> None:
        self.tokenizer, self.options, self.limits = policy.tokenizer, options, PolicyLimits(policy)
        self._ends, self._on_main = ends_of(policy, options.stop), on_main
        if engine.folder is not None and not Path(engine.folder).is_dir():
            raise UserError(f"engine.sampler.vllm.folder: {engine.folder} is no folder")
        self._servers = [VllmServer(address, engine.seconds) for address in engine.servers]
        for server in self._servers:
            server.open(self.limits.context)
        self.engines = len(self._servers)
        self._pool = ThreadPoolExecutor(engine.in_flight * self.engines, thread_name_prefix="vllm")
        self._folder = engine.folder
        self._weights: Path | None = None
        self._started: dict[str, str] = {}  # address to the start of the process that has the present weights
        self._lost = ""  # how the last lost server was lost
        self.notices: list[str] = []
        self._counts: Counter[str] = Counter()
        self.version = 0

    def take(self, version: int, export: Export) -> dict[str, int]:
        """Write the weights once and have every server read them; lost ones that are back are used again.

        Returns counts of the requests since the last time: ``prompt_tokens``, ``cached_tokens`` of them that came from
        a server's cache, ``asked_again``, rollouts whose server was lost.

        Raises:
            EngineLostError: no server is left.
        """
        before = self._weights
        self._weights = Path(self._on_main(lambda: tempfile.mkdtemp(prefix="outrider-weights-", dir=self._folder)))
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)  # every server has read it, or is lost
        export(self._weights)
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
                server.reload(str(self._weights))
                started[server.address] = server.started()
            except ServerLostError as error:
                self._say_lost(server, str(error))
        self._refuse_none(started)
        return started

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        jobs = [job for i, request in enumerate(requests) for job in self._jobs(i, request)]
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
        modes = [self._mode(self._params(request)) for request in requests]
        return rollouts_of(requests, sampled, modes, self.version, self.tokenizer)

    def close(self) -> None:
        """End the threads, also where one waits for a server, and remove the weights that were handed over."""
        for server in self._servers:
            server.close()
        self._pool.shutdown(cancel_futures=True)
        if self._weights is not None:
            shutil.rmtree(self._weights, ignore_errors=True)

    def _jobs(self, index: int, request: SampleRequest) -> list[_Job]:
        params = self._params(request)
        room = self.limits.room(request, params)
        body = {
            "prompt": context_of(request).tolist(),
            "max_tokens": room.tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            "logprobs": 0,  # of the sampled token alone
            "return_token_ids": True,
            "stop": self._ends.texts,
            "stop_token_ids": self._ends.ids,
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
        }
        return [_Job(index, k, room, {**body, "seed": request.rollout_seed(k)}) for k in range(request.n)]

    def _ask(self, server: VllmServer, job: _Job) -> _Answer:
        """The tokens of a rollout; a server that is lost is left out."""
        if server.address not in self._started:
            return _Answer(server)
        try:
            answer = server.complete(job.body)
        except ServerLostError as error:
            self._leave_out(server, str(error))
            return _Answer(server)
        usage = answer.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        tokens = _tokens(answer["choices"][0], job.room, server)
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

    def _params(self, request: SampleRequest) -> SamplingParams:
        return request.params or self.options.params()

    def _mode(self, params: SamplingParams) -> Mode:
        return Mode(params.temperature, params.top_p, params.top_k) if params.temperature > 0 else RAW


def _tokens(choice: dict[str, Any], room: Room, server: VllmServer) -> SampledTokens:
    ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
    if len(ids) != len(logprobs) or not ids:
        raise UserError(f"{server.address} gives {len(ids)} tokens and {len(logprobs)} log-probabilities")
    reason = choice["finish_reason"]
    if reason not in ("stop", "length"):
        raise UserError(f"{server.address} ended a response with {reason!r}")
    by_text = isinstance(choice.get("stop_reason"), str)
    stop = room.reason if reason == "length" else StopReason.TEXT if by_text else StopReason.STOP
    return SampledTokens(np.array(ids, np.int32), np.array(logprobs, np.float32), None, stop)
