"""The vLLM sampler over HTTP: requests to several servers, and servers that fail. The servers are scripted."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outrider.errors import EngineLostError, UserError
from outrider.model.load import Policy
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions, TrainedPolicyOptions
from outrider.record import SampleRequest, StopReason
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.vllm import VllmSampler
from outrider.sample.vllm_requests import VllmRequests
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


def test_nothing_is_left_to_the_generation_config_of_a_model(policy):
    """A server fills in what a request leaves out of these, as Qwen2.5's penalty of repetition."""
    from_config = {"repetition_penalty", "temperature", "top_k", "top_p", "min_p", "max_tokens"}
    [job] = VllmRequests(policy, SampleOptions(max_tokens=24)).jobs([request("p", [1, 5])])
    assert from_config <= set(job.asked)
    assert (job.asked["repetition_penalty"], job.asked["min_p"]) == (1.0, 0.0)


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


def adapted() -> Policy:
    policy = random_policy()._replace(options=TrainedPolicyOptions(lora=LoraOptions(rank=4)))
    add_adapter(policy.model, policy.options.lora, seed=0)
    return policy


def test_servers_that_take_adapters_are_given_each_once_and_forget_the_one_before(servers, tmp_path):
    for server in servers:
        server.adapters = []
    sampler = opened(adapted(), servers, tmp_path)
    assert sampler.takes_adapter
    assert not sampler.notices
    assert [[Path(f).name for f in server.folders] for server in servers] == [["beneath"]] * 3, (
        "once, the weights beneath"
    )
    seen = []
    for version in (2, 3):
        sampler.take(version, lambda folder: None)
        assert drawn(sampler) == expected()
        assert len({name for server in servers for name in server.asked_for[-10:]}) == 1, "all with one adapter"
        assert [server.adapters for server in servers] == [[server.asked_for[-1]] for server in servers]
        seen.append(servers[0].asked_for[-1])
    assert seen[0] != seen[1], "a name of its own for every version"
    servers[1].adapters.clear()  # it was started anew
    sampler.take(4, lambda folder: None)
    assert drawn(sampler) == expected()
    assert [len(server.adapters) for server in servers] == [1, 1, 1]
    sampler.close()
    assert list(tmp_path.iterdir()) == []


def test_where_one_server_takes_no_adapter_all_are_given_whole_weights_and_it_is_said(servers, tmp_path):
    servers[0].adapters = []
    sampler = opened(adapted(), servers, tmp_path)
    assert not sampler.takes_adapter
    [notice] = sampler.notices
    assert re.match(r"the vLLM server \S+ takes no adapters of this policy \(.*Not Found\); the whole weights", notice)
    assert servers[1].address in notice
    assert [len(server.folders) for server in servers] == [1, 1, 1]
    drawn(sampler)
    assert {name for server in servers for name in server.asked_for} == {"scripted"}
    assert servers[0].adapters == []
    sampler.close()


def test_what_a_killed_run_left_is_removed_and_what_a_run_uses_stays(policy, servers, tmp_path):
    killed = (
        "import os, sys; from outrider.sample.handed_weights import HandedWeights; "
        "print(HandedWeights(sys.argv[1], lambda make: make()).renew()); sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    left = subprocess.run([sys.executable, "-c", killed, str(tmp_path)], capture_output=True, text=True, check=False)
    assert Path(left.stdout.strip()).is_dir(), left.stderr
    (tmp_path / "other").mkdir()
    first = opened(policy, servers[:1], tmp_path)
    assert first.notices == [f"removed {left.stdout.strip()}, which a killed run had left"]
    second = opened(policy, servers[1:2], tmp_path)
    assert second.notices == []
    assert len(list(tmp_path.iterdir())) == 3, "that of each, and what is nobody's"
    for sampler in (first, second):
        sampler.close()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


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
