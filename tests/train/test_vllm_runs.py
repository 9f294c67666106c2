"""Whole runs whose rollouts come from servers that are lost. The servers stand in for vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import rank_mains
from child_processes import begun
from outrider.model.load import load_policy
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.screen.screen import Screen
from outrider.train.run import TrainingRun
from scripted_vllm import SamplingVllm

SHORT = ["train.tokens=null", "train.steps=6", "train.problems=4", "train.save_every=10", "sample.max_tokens=24"]
EVALUATED = ["evaluate.before=false", "evaluate.after=false", "evaluate.problems=4", "evaluate.n=2", "train.ranks=1"]


class Mortal(SamplingVllm):
    """Dies when it is given weights for the so-manieth time, or at a probe or rollout after that."""

    def __init__(self, reloads: int = 10**6, completions: int = 0) -> None:
        self._reloads, self._completions = reloads, completions
        super().__init__()

    def reload(self, folder: Path) -> None:
        super().reload(folder)
        if len(self.folders) == self._reloads:
            self.dies_after = self.served + self._completions


@pytest.fixture
def servers() -> Iterator[list[SamplingVllm]]:
    started: list[SamplingVllm] = []
    yield started
    for server in started:
        server.close()


def run(servers: list[SamplingVllm], out: Path, *more: str) -> tuple[int, str]:
    engine = {"sampler": {"vllm": {"servers": [server.address for server in servers]}}}
    words = ["train", "grpo", *SHORT, *EVALUATED, f"engine={json.dumps(engine)}", "--out", str(out), *more]
    process = begun(words, out.with_name("errors.txt"))
    return process.wait(), process.errors()


@pytest.mark.parametrize(
    "completions", [pytest.param(0, id="weight sync"), pytest.param(1, id="probe", marks=pytest.mark.slow)]
)
def test_a_last_server_that_is_lost_when_it_takes_weights_costs_no_step(
    completions: int, servers: list[SamplingVllm], tmp_path: Path
) -> None:
    """Its 5th weights are those after step 4, behind which an evaluation is due; nothing was saved since step 0."""
    servers += [Mortal(reloads=5, completions=completions), SamplingVllm()]
    status, said = run(servers[:1], tmp_path / "run", "train.evaluate_every=4")
    last = said.strip().splitlines()[-1]
    assert status == 2, said
    assert last.startswith("outrider: no vLLM server is left (the last was ")
    assert last.endswith("`outrider train … --resume` goes on after step 4")
    folder = RunFolder(tmp_path / "run")
    assert [row["step"] for row in folder.metrics()] == [1, 2, 3, 4]
    assert sorted(path.name for path in (tmp_path / "run" / "rollouts").glob("train-*")) == [
        f"train-{step:08d}.parquet" for step in (1, 2, 3, 4)
    ]
    status, said = run(servers[1:], tmp_path / "run", "train.evaluate_every=4", "--resume")
    assert status == 0, said
    assert [row["step"] for row in folder.metrics()] == [1, 2, 3, 4, 5, 6]
    assert list(folder.evaluations()) == [4], "the evaluation that was due is made up for"


def test_a_server_that_is_lost_in_the_last_evaluation_is_said(servers: list[SamplingVllm], tmp_path: Path) -> None:
    """Of its completions 2 are of each probe; 4 problems of 2 rollouts and a greedy one go round the two."""
    servers += [SamplingVllm(), Mortal(reloads=2, completions=3)]
    status, said = run(servers, tmp_path / "run", "train.steps=1", "evaluate.after=true")
    assert status == 0, said
    lost = f"warning: the vLLM server {servers[1].address}: RemoteDisconnected"
    assert lost in said
    assert lost in (tmp_path / "run" / "notices.txt").read_text()
    assert [row["sync/engines"] for row in RunFolder(tmp_path / "run").metrics()] == [2.0]


def test_with_a_lag_servers_sample_during_updates_and_a_lost_one_costs_no_step(
    servers: list[SamplingVllm], tmp_path: Path
) -> None:
    """Its 3rd weights are those after step 2; 2 completions after their probe it dies, while step 4 is sampled."""
    servers += [Mortal(reloads=3, completions=4), SamplingVllm()]
    status, said = run(servers[:1], tmp_path / "run", "train.lag=1")
    assert status == 2, said
    assert said.strip().endswith("`outrider train … --resume` goes on after step 3")
    folder, store = RunFolder(tmp_path / "run"), RolloutStore(tmp_path / "run" / "rollouts")
    assert [row["step"] for row in folder.metrics()] == [1, 2, 3]
    status, said = run(servers[1:], tmp_path / "run", "train.lag=1", "--resume")
    assert status == 0, said
    versions = [{r.policy_version for r in store.read(step)} for step in range(1, 7)]
    assert versions == [{0}, {0}, {1}, {3}, {3}, {4}], "step 4 was sampled again, by the weights of the last checkpoint"


def begun_with_notices(ranks: Ranks, out: Path) -> int:
    trainer = rank_mains.trainer(ranks)
    policy = load_policy(trainer.recipe.model)
    run = TrainingRun(trainer, policy, "", ranks, Screen(trainer.recipe, out, ranks.main), out, "")
    trainer.collect.sampler.notices += ["all ranks have this to say", f"and rank {ranks.rank} that"]
    run.begin(resume=False, force=False)
    assert trainer.collect.sampler.notices == []
    trainer.collect.sampler.notices.append(f"rank {ranks.rank} was cut short")
    run.close()
    return 0


def test_what_the_samplers_of_all_ranks_have_to_say_is_said_once(tmp_path: Path) -> None:
    assert launch(2, begun_with_notices, tmp_path / "run") == 0
    said = (tmp_path / "run" / "notices.txt").read_text()
    for sentence in ("all ranks have this", "and rank 0 that", "and rank 1 that", "rank 0 was cut short"):
        assert said.count(f"warning: {sentence}") == 1
