"""The vLLM sampler over HTTP: requests to several servers, and servers that fail. The servers are scripted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import rank_mains
from outrider.config import load_recipe
from outrider.errors import EngineLostError, UserError
from outrider.model.load import Policy
from outrider.model.lora import add_adapter
from outrider.model.options import LoraOptions, TrainedPolicyOptions
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record import SampleRequest, StopReason
from outrider.sample import vllm_engine
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.serve_command import server_environment
from outrider.sample.vllm import VllmSampler
from outrider.sample.vllm_requests import VllmRequests
from outrider.train.engines import open_engines
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
    assert sampler.take(2, lambda folder: None) == {"prompt_tokens": 60, "cached_tokens": 30, "retries": 0}
    assert sampler.engines == 3
    assert [len(server.folders) for server in servers] == [server.resets for server in servers] == [2, 2, 2]
    sampler.close()
    assert list(tmp_path.iterdir()) == [], "no weights are left behind"


@pytest.mark.parametrize("after", [0, 1, 7])
def test_what_a_dead_server_owes_is_asked_of_the_others_and_nothing_is_counted_twice(policy, servers, tmp_path, after):
    sampler = opened(policy, servers, tmp_path)
    servers[1].dies_after = after
    assert drawn(sampler) == expected()
    assert 30 <= sum(server.served for server in servers) <= 30 + after
    assert drawn(sampler) == expected(), "and it is not retried"
    assert servers[1].served == after
    servers[1].dies_after = None  # it is back, with the weights of whoever started it
    numbers = sampler.take(2, lambda folder: None)
    assert 1 <= numbers["retries"] <= 10
    assert sampler.engines == 3
    drawn(sampler)
    assert servers[1].served == after + 10
    sampler.close()


def test_nothing_is_left_to_the_generation_config_of_a_model(policy):
    """A server fills in what a request leaves out of these, as Qwen2.5's penalty of repetition."""
    from_config = {"repetition_penalty", "temperature", "top_k", "top_p", "min_p", "max_tokens"}
    [job] = VllmRequests(policy, SampleOptions(max_tokens=24)).jobs([request("p", [1, 5])])
    assert from_config <= set(job.asked)
    assert (job.asked["repetition_penalty"], job.asked["min_p"]) == (1.0, 0.0)


def test_where_a_rollout_depends_on_what_else_is_drawn_the_run_says_so(policy, servers, tmp_path):
    """In float32 it does not, which the contract of samplers holds vLLM to."""
    for dtype, said in (("float32", []), ("bfloat16", ["vLLM in bfloat16: concurrent requests change"])):
        options = policy.options.model_copy(update={"dtype": dtype})
        sampler = opened(policy._replace(options=options), servers[:1], tmp_path)
        assert [notice[: len(said[0])] for notice in sampler.notices] == said
        sampler.close()


def test_connections_that_a_server_has_closed_are_opened_again(policy, servers, tmp_path):
    """As vLLM's does when nothing was asked for five seconds."""
    sampler = opened(policy, servers, tmp_path)
    for server in servers:
        server.closes = True
    for version in (2, 3):
        assert drawn(sampler) == expected()
        assert sampler.take(version, lambda folder: None)["retries"] == 0
    sampler.close()


def test_a_server_that_was_restarted_has_other_weights(policy, servers, tmp_path):
    """It answers, so nothing but its start shows that it is another process."""
    sampler = opened(policy, servers, tmp_path)
    servers[2].restarts_after = 4
    assert drawn(sampler) == expected()
    assert [server.served for server in servers][:2] == [15, 15], "all ten of the third are drawn again"
    assert sampler.take(2, lambda folder: None)["retries"] == 10
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
    assert [len(server.folders) for server in servers] == [1, 1, 1], "once, the weights beneath"
    seen = []
    for version in (2, 3):
        sampler.take(version, lambda folder: None)
        assert drawn(sampler) == expected()
        assert len({name for server in servers for name in server.asked_for[-10:]}) == 1, "all with one adapter"
        assert [server.adapters for server in servers] == [[server.asked_for[-1]] for server in servers]
        seen.append(servers[0].asked_for[-1])
    assert seen[0] != seen[1], "a name of its own for every version"
    servers[1].restart()  # between two requests: it answers, that it does not know the adapter
    assert drawn(sampler) == expected()
    [notice] = sampler.notices
    assert (
        notice
        == f"the vLLM server {servers[1].address}: it was restarted; it gets no requests until the next weight sync"
    )
    assert sampler.take(4, lambda folder: None)["retries"] == 10
    assert drawn(sampler) == expected()
    assert [len(server.adapters) for server in servers] == [1, 1, 1]
    assert servers[1].folders == servers[0].folders * 2, "a new process is given the weights beneath once more"
    sampler.close()
    assert list(tmp_path.iterdir()) == []


def test_where_one_server_takes_no_adapter_all_are_given_whole_weights_and_it_is_said(servers, tmp_path):
    servers[0].adapters = []
    sampler = opened(adapted(), servers, tmp_path)
    assert not sampler.takes_adapter
    [notice] = sampler.notices
    assert re.match(r"the vLLM server \S+ takes no adapters of this policy \(.*Not Found\); merged weights", notice)
    assert servers[1].address in notice
    assert [len(server.folders) for server in servers] == [1, 1, 1]
    drawn(sampler)
    assert {name for server in servers for name in server.asked_for} == {"scripted"}
    assert servers[0].adapters == []
    sampler.close()


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


def test_every_rank_draws_with_the_adapter_and_begins_with_a_server_of_its_own(servers, tmp_path):
    """Rank 0 alone loads it; its name is new with every version."""
    for server in servers:
        server.adapters = []
    addresses = [server.address for server in servers]
    assert launch(2, rank_mains.adapter_over_http, addresses, tmp_path) == 0
    for server in servers:
        first, second = server.asked_for[:4], server.asked_for[4:]
        assert len(first) == len(second) == 4, "each of the ranks' three requests"
        assert len({*first}) == len({*second}) == len({*first, *second} - {"scripted"}) - 1 == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ranks", "problems", "there"), [(8, 8, 2), (6, 32, 3), (8, 64, 3), (2, 2, 2), (4, 4, 3)])
def test_servers_share_what_all_ranks_ask(policy, servers, tmp_path, ranks, problems, there):
    """Each rank has its share of the problems, and numbers them from 0."""
    for rank in range(ranks):
        engine = Vllm(servers=[server.address for server in servers[:there]], folder=str(tmp_path))
        sampler = VllmSampler(policy, SampleOptions(max_tokens=24), engine, rank=rank)
        sampler.take(1, lambda folder: None)
        sampler.sample([request(f"p{i}", [1, 5]) for i in range(rank, problems, ranks)])
        sampler.close()
    served = [server.served for server in servers[:there]]
    assert sum(served) == problems
    assert max(served) - min(served) <= 1


def test_a_server_that_another_run_gave_weights_is_excluded(policy, servers, tmp_path):
    """It has the same process and answers; nothing but whose weights it has shows that they are others."""
    mine = opened(policy, servers[:2], tmp_path)
    other = opened(policy, servers[1:2], tmp_path)
    assert drawn(mine) == expected()
    [notice] = mine.notices
    assert f"{servers[1].address}: another run gave it weights; it gets no requests" in notice
    assert drawn(other) == expected()
    assert other.notices == []
    mine.take(2, lambda folder: None)  # takes it back
    with pytest.raises(EngineLostError, match=r"no vLLM server is left .*: another run gave it weights"):
        drawn(other)
    for sampler in (mine, other):
        sampler.close()


def test_a_server_that_keeps_no_names_of_weights_serves_all_the_same(policy, servers, tmp_path):
    for server in servers:
        server.claim = None
    sampler = opened(policy, servers, tmp_path)
    servers[2].restart()
    assert drawn(sampler) == expected()
    assert servers[2].address in sampler.notices[0]
    sampler.close()


def test_a_cache_that_is_in_use_is_emptied_later_or_the_server_is_lost(policy, servers, tmp_path):
    servers[0].busy = 2
    sampler = opened(policy, servers[:2], tmp_path, seconds=0.5)
    assert sampler.engines == 2
    servers[0].busy = 10**6
    sampler.take(2, lambda folder: None)
    assert sampler.engines == 1
    [notice] = sampler.notices
    assert f"{servers[0].address}: for 0.5 s (engine.sampler.vllm.seconds) it could not forget its cache" in notice
    servers[1].busy = 10**6
    with pytest.raises(EngineLostError, match="no vLLM server is left"):
        sampler.take(3, lambda folder: None)
    sampler.close()


def test_a_refusal_of_weights_is_the_users_at_first_and_later_a_lost_server(policy, servers, tmp_path):
    sampler = opened(policy, servers[:2], tmp_path)
    servers[0].forbids.add("/collective_rpc")
    sampler.take(2, lambda folder: None)
    assert sampler.engines == 1
    assert "/collective_rpc refuses: forbidden (it needs VLLM_SERVER_DEV_MODE=1" in sampler.notices[0]
    sampler.close()
    with pytest.raises(UserError, match=r"refuses: forbidden \(it needs VLLM_SERVER_DEV_MODE=1") as error:
        opened(policy, servers[:2], tmp_path)
    assert not isinstance(error.value, EngineLostError)


def test_a_server_that_hangs_is_lost_after_the_seconds_of_the_recipe(policy, servers, tmp_path):
    sampler = opened(policy, servers[:2], tmp_path, seconds=0.5)
    servers[0].hangs.set()
    assert drawn(sampler) == expected()
    assert "no answer in 0.5 s (engine.sampler.vllm.seconds); it gets no requests" in sampler.notices[0]
    servers[0].hangs.clear()
    sampler.close()


def test_a_server_that_says_nothing_of_its_process_is_refused(policy, servers, tmp_path):
    """Several processes for the API: vLLM then tells of none when it began, and each knows its own adapters."""
    servers[0].began = None
    with pytest.raises(UserError, match=r"a restart would go unnoticed; .*--api-server-count 1"):
        opened(policy, servers, tmp_path)


def test_what_fails_while_weights_are_offered_leaves_none_behind(servers, tmp_path, monkeypatch):
    for server in servers:
        server.adapters = []

    def full(*_: object) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr("outrider.sample.vllm.write_weights", full)
    with pytest.raises(UserError, match="the disk is full"):
        opened(adapted(), servers, tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()


def test_a_learner_that_cannot_be_had_leaves_no_weights_behind(servers, tmp_path, monkeypatch):
    """The weights beneath an adapter are written before there is a learner."""
    servers[0].adapters = []
    engine = {"vllm": {"servers": [servers[0].address], "folder": str(tmp_path)}}
    recipe = load_recipe("grpo", [f"engine.sampler={json.dumps(engine)}"])

    def none(*_: object) -> None:
        assert len(list(tmp_path.iterdir())) == 2
        raise UserError("there is no GPU")

    monkeypatch.setattr("outrider.train.engines.open_learner", none)
    with pytest.raises(UserError, match="there is no GPU"):
        open_engines(recipe, adapted(), Ranks())
    assert list(tmp_path.iterdir()) == []


def test_servers_that_fail_at_the_weights_beneath_an_adapter_are_lost(servers, tmp_path):
    for server in servers:
        server.adapters = []
        server.breaks.add("/collective_rpc")
    with pytest.raises(EngineLostError, match=r"no vLLM server is left .*: HTTPException: status 500: broken"):
        opened(adapted(), servers, tmp_path)


def test_vllm_is_asked_for_exact_float32_matmuls_unless_the_user_asks_otherwise(monkeypatch):
    """Triton's own variable, for its attention on a GPU."""
    assert server_environment()["TRITON_F32_DEFAULT"] == "ieee"
    for said, used in ((None, "ieee"), ("tf32x3", "tf32x3")):
        with monkeypatch.context() as environment:
            environment.setattr(os, "environ", {} if said is None else {"TRITON_F32_DEFAULT": said})
            with vllm_engine._environment(0, 1, torch.device("cpu")):
                assert os.environ["TRITON_F32_DEFAULT"] == used
