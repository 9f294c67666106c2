"""The vLLM sampler over HTTP: requests to several servers, and servers that fail. The servers are scripted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outrider.errors import UserError
from outrider.model.load import Policy
from outrider.record import SampleRequest, StopReason
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.sampler import EngineLostError
from outrider.sample.vllm import VllmSampler
from scripted_vllm import ScriptedVllm, tokens_of
from small import random_policy, request


@pytest.fixture(scope="module")
def policy() -> Policy:
    return random_policy()


@pytest.fixture
def servers() -> Iterator[list[ScriptedVllm]]:
    started = [ScriptedVllm() for _ in range(3)]
    yield started
    for server in started:
        server.close()


def opened(policy: Policy, servers: list[ScriptedVllm], folder: Path, seconds: float = 5.0) -> VllmSampler:
    engine = Vllm(servers=[server.address for server in servers], folder=str(folder), seconds=seconds, in_flight=4)
    sampler = VllmSampler(policy, SampleOptions(max_tokens=24), engine)
    sampler.take(1, lambda folder: (folder / "model.safetensors").touch())
    return sampler


REQUESTS: list[SampleRequest] = [request(f"p{i}", [1, 5 + i], n=5, seed=3) for i in range(6)]


def expected() -> list[list[int]]:
    asked = [(r, k) for r in REQUESTS for k in range(r.n)]
    return [tokens_of({"prompt": r.prompt_ids.tolist(), "seed": r.rollout_seed(k), "max_tokens": 24}) for r, k in asked]


def drawn(sampler: VllmSampler) -> list[list[int]]:
    return [rollout.token_ids.tolist() for rollout in sampler.sample(REQUESTS)]


def test_requests_go_round_the_servers_and_come_back_in_order(policy, servers, tmp_path):
    sampler = opened(policy, servers, tmp_path)
    rollouts = sampler.sample(REQUESTS)
    assert [r.token_ids.tolist() for r in rollouts] == expected()
    assert [server.served for server in servers] == [10, 10, 10]
    assert {r.stop for r in rollouts} == {StopReason.STOP}
    assert {r.policy_version for r in rollouts} == {1}
    assert all(r.entropies_T is None for r in rollouts)
    assert sampler.take(2, lambda folder: None) == {"prompt_tokens": 60, "cached_tokens": 30, "asked_again": 0}
    assert sampler.engines_used == 3
    assert [len(server.folders) for server in servers] == [server.resets for server in servers] == [2, 2, 2]
    sampler.close()
    assert list(tmp_path.iterdir()) == [], "no weights are left behind"


@pytest.mark.parametrize("after", [0, 1, 7])
def test_what_a_dead_server_owes_is_asked_of_the_others_and_nothing_is_counted_twice(policy, servers, tmp_path, after):
    sampler = opened(policy, servers, tmp_path)
    servers[1].dies_after = after
    assert drawn(sampler) == expected()
    assert 30 <= sum(server.served for server in servers) <= 30 + after
    assert drawn(sampler) == expected(), "and it is not asked again"
    assert servers[1].served == after
    servers[1].dies_after = None  # it is back, with the weights of whoever started it
    numbers = sampler.take(2, lambda folder: None)
    assert 1 <= numbers["asked_again"] <= 10
    assert sampler.engines_used == 3
    drawn(sampler)
    assert servers[1].served == after + 10
    sampler.close()


def test_connections_that_a_server_has_closed_are_opened_again(policy, servers, tmp_path):
    """As vLLM's does when nothing was asked for five seconds."""
    sampler = opened(policy, servers, tmp_path)
    for server in servers:
        server.closes = True
    for version in (2, 3):
        assert drawn(sampler) == expected()
        assert sampler.take(version, lambda folder: None)["asked_again"] == 0
    sampler.close()


def test_a_server_that_was_restarted_has_other_weights(policy, servers, tmp_path):
    """It answers, so nothing but its start shows that it is another process."""
    sampler = opened(policy, servers, tmp_path)
    servers[2].restarts_after = 4
    assert drawn(sampler) == expected()
    assert [server.served for server in servers][:2] == [15, 15], "all ten of the third are drawn again"
    assert sampler.take(2, lambda folder: None)["asked_again"] == 10
    sampler.close()


def test_without_a_server_the_run_ends_with_one_sentence(policy, servers, tmp_path):
    sampler = opened(policy, servers, tmp_path)
    for server in servers:
        server.dies_after = 2
    with pytest.raises(
        EngineLostError, match=r"no vLLM server is left \(the last was http://127\S+: RemoteDisconnected"
    ):
        sampler.sample(REQUESTS)
    with pytest.raises(EngineLostError, match="no vLLM server"):
        sampler.take(2, lambda folder: None)
    sampler.close()


def test_what_a_server_refuses_is_its_own_sentence(policy, servers, tmp_path):
    sampler = opened(policy, servers[:1], tmp_path)
    servers[0].refuses = "seed must be small"
    with pytest.raises(UserError, match="/v1/completions refuses: seed must be small"):
        sampler.sample(REQUESTS)
    sampler.close()


def test_a_server_that_is_not_fit_is_refused_at_the_start(policy, servers, tmp_path):
    servers[0].context = 64
    with pytest.raises(
        UserError, match="a context of 64 tokens, and the policy one of 128; start it with --max-model-len 128"
    ):
        opened(policy, servers, tmp_path)
    servers[1].dies_after = 0
    with pytest.raises(UserError, match=r"the vLLM server http://127\S+ does not answer"):
        opened(policy, servers[1:], tmp_path)
    with pytest.raises(UserError, match=r"vllm.folder: .*nowhere is no folder"):
        opened(policy, servers[2:], tmp_path / "nowhere")


def test_closing_waits_for_no_server(policy, servers, tmp_path):
    """As after Ctrl-C, while requests are answered by nobody."""
    sampler = opened(policy, servers[:1], tmp_path, seconds=3600.0)
    servers[0].hangs.set()
    with ThreadPoolExecutor(2) as threads:
        sampled = threads.submit(sampler.sample, REQUESTS)
        assert servers[0].asked.wait(60)
        closed = threads.submit(sampler.close)
        try:
            closed.result(60)
            assert sampled.exception(60) is not None
        finally:
            servers[0].hangs.clear()
