"""What every sampler keeps of a policy with an adapter, which servers and engines that can are given alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from outrider.errors import UserError
from outrider.model.load import Policy, load_policy
from outrider.model.lora import write_adapter
from outrider.model.options import LoraOptions, TrainedPolicyOptions
from outrider.model.weights_file import write_weights
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions, Vllm
from outrider.sample.ready import ready
from outrider.sample.sampler import Sampler, takes_adapter
from outrider.sample.synced_weights import SyncedWeights
from outrider.sample.vllm import VllmSampler
from outrider.sample.vllm_engine import VllmEngine
from outrider.sample.vllm_inside import VllmInside
from sampler_cases import draw, move, own_logprobs, weight_sync
from vllm_servers import Server, needs_vllm, needs_vllm_here, on_a_cpu

Open = Callable[[Policy], Sampler]
SAMPLE = SampleOptions(max_tokens=24)
SIZE = 0.01  # of a movement: an adapter's halves are multiplied
# A moved adapter amplifies rounding: the float32 forward pass of transformers itself is 1e-5 from its float64 one there
# (4e-6 without an adapter). An adapter that is one version old is 4 away.
NEAR = 1e-4


def adapted(rank: int = 4) -> Policy:
    policy = ready(load_policy("base:countdown", TrainedPolicyOptions(lora=LoraOptions(rank=rank))))[0]
    move(policy, SIZE)
    return policy


@pytest.fixture
def policy() -> Policy:
    return adapted()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server("base:countdown", tmp_path_factory.mktemp("server") / "log", lora=4)
    try:
        yield started.wait()
    finally:
        started.kill()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For temporary files: in the machine's there may be weights of a killed run, whose removal is a notice."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    with on_a_cpu():
        made = VllmEngine(adapted(), SyncedWeights(str(tmp_path_factory.mktemp("weights")), lambda make: make()))
    yield made
    made.close()


@pytest.fixture(params=["local", pytest.param("vllm", marks=needs_vllm), pytest.param("inside", marks=needs_vllm_here)])
def open_(request: pytest.FixtureRequest) -> Iterator[Open]:
    opened: list[Sampler] = []

    def open_sampler(policy: Policy) -> Sampler:
        if request.param == "local":
            opened.append(LocalSampler(policy, SAMPLE))
        elif request.param == "vllm":
            opened.append(VllmSampler(policy, SAMPLE, Vllm(servers=[request.getfixturevalue("server").address])))
        else:
            opened.append(VllmInside(policy, SAMPLE, request.getfixturevalue("engine")))
        assert takes_adapter(opened[-1]) == (request.param != "local")
        assert not opened[-1].notices
        return opened[-1]

    yield open_sampler
    for sampler in opened:
        if not isinstance(sampler, VllmInside):  # its engine serves the next test
            sampler.close()


def give(sampler: Sampler, policy: Policy, version: int) -> None:
    write = write_adapter if takes_adapter(sampler) else write_weights
    sampler.take(version, lambda folder: write(policy.model, folder))


def test_log_probabilities_are_those_of_the_model_and_new_adapters_show(open_: Open, policy: Policy) -> None:
    sampler = open_(policy)
    ids = []
    for version in (0, 1, 2):
        give(sampler, policy, version)
        drawn = draw(sampler)
        for rollout in drawn:
            assert rollout.policy_version == version
            assert np.abs(rollout.logprobs_T - own_logprobs(policy, rollout)).max() < NEAR
        ids.append([rollout.token_ids.tolist() for rollout in drawn])
        move(policy, SIZE)
    assert ids[0] != ids[1] != ids[2]


def test_an_adapter_that_arrives_passes_the_probe(open_: Open, policy: Policy) -> None:
    over = weight_sync(open_(policy), policy)
    for version in (1, 2, 2):  # the last without a change
        assert over(version)["probe_max"] < NEAR
        if version == 1:
            move(policy, SIZE)


def test_what_is_synced_is_the_adapter_alone(open_: Open, policy: Policy, monkeypatch) -> None:
    sampler = open_(policy)
    written: list[dict[str, object]] = []
    take = sampler.take

    def seen(version: int, export: Callable[[Path], None]) -> dict[str, int]:
        def both(folder: Path) -> None:
            export(folder)
            written.extend(load_file(file) for file in folder.glob("*.safetensors"))

        return take(version, both)

    monkeypatch.setattr(sampler, "take", seen)
    weight_sync(sampler, policy)(1)
    if takes_adapter(sampler):
        [tensors] = written
        assert all("lora_" in name for name in tensors)
    else:
        assert not written


@needs_vllm_here
@pytest.mark.parametrize("forgotten", ["the adapter", "its use"])
def test_an_adapter_that_does_not_arrive_inside_is_refused(
    policy: Policy, engine: VllmEngine, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = weight_sync(VllmInside(policy, SAMPLE, engine), policy)
    over(1)
    if forgotten == "the adapter":
        monkeypatch.setattr(engine, "load_adapter", lambda export: None)
    else:
        complete = engine.complete

        def without(jobs):
            monkeypatch.setattr(engine, "_adapter", None)
            return complete(jobs)

        monkeypatch.setattr(engine, "complete", without)
    move(policy, SIZE)
    with pytest.raises(UserError, match=r"log-probabilities.* are .* from the learner's|did not arrive"):
        over(2)


@needs_vllm
@pytest.mark.parametrize("forgotten", ["the adapter", "its use", "its name"])
def test_an_adapter_that_does_not_arrive_over_http_is_refused(
    policy: Policy, server: Server, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = VllmSampler(policy, SAMPLE, Vllm(servers=[server.address]))
    over = weight_sync(sampler, policy)
    over(1)
    [to] = sampler._servers
    if forgotten == "its name":  # loaded under the one before, from a folder that is no longer read
        monkeypatch.setattr(to, "load_adapter", lambda folder: to._ask("POST", "/v1/load_lora_adapter", b"{}"))
        move(policy, SIZE)
        with pytest.raises(UserError):
            over(2)
        return
    load = to.load_adapter
    monkeypatch.setattr(
        to,
        "load_adapter",
        (lambda folder: None) if forgotten == "the adapter" else lambda folder: load_unused(to, load, folder),
    )
    move(policy, SIZE)
    with pytest.raises(UserError, match=r"log-probabilities.* are .* from the learner's|did not arrive"):
        over(2)
    sampler.close()


def load_unused(to, load, folder: Path) -> None:
    load(folder)
    to._adapter = ""


@needs_vllm
def test_a_server_that_has_other_weights_beneath_is_given_its_own_again(policy: Policy, server: Server) -> None:
    """As after a run that trained all weights."""
    whole = ready(load_policy("base:countdown"))[0]
    move(whole)
    before = VllmSampler(whole, SAMPLE, Vllm(servers=[server.address]))
    weight_sync(before, whole)(1)
    before.close()
    assert weight_sync(VllmSampler(policy, SAMPLE, Vllm(servers=[server.address])), policy)(1)["probe_max"] < NEAR


@needs_vllm
def test_a_rank_that_the_server_does_not_hold_goes_over_as_whole_weights(server: Server) -> None:
    policy = adapted(rank=12)
    sampler = VllmSampler(policy, SAMPLE, Vllm(servers=[server.address]))
    assert not sampler.takes_adapter
    [notice] = sampler.notices
    assert "rank" in notice
    assert weight_sync(sampler, policy)(1)["probe_max"] < NEAR
    sampler.close()
