"""``train.lag: 1``: the next step is sampled during an update, by older weights, and equal runs stay equal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_run import SMALL, contents, plain, recipe

import outrider
from child_processes import Started, begun, wait_until
from outrider.config import Recipe, load_recipe
from outrider.credit.assign import assign
from outrider.errors import EngineLostError, UserError
from outrider.estimate import estimate
from outrider.estimate.estimate import layout_of
from outrider.explore.explorer import Explored
from outrider.learn.local import LocalLearner
from outrider.model.load import load_policy
from outrider.objective import Truncate
from outrider.objective.policy_loss import PolicyLoss
from outrider.processes.clock import Clock, training_seconds
from outrider.processes.devices import Devices
from outrider.processes.launch import threads_of_a_rank
from outrider.processes.ranks import Ranks
from outrider.record import Group, Problem
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.sample.local import LocalSampler
from outrider.sample.ready import ready
from outrider.sample.sampling_process import SamplerParts, SamplingProcess
from outrider.train import engines
from outrider.train.ahead import Ahead
from outrider.train.build import build
from outrider.train.collect import Collector
from outrider.train.loop import Watcher
from outrider.view.overview import _seconds
from small import branch_of, request

STEPS = 6
PHASES = {"explore", "gather", "sample", "verify", "credit", "learn", "record", "save", "sync", "wait"}
RUN = [  # greso: stages with state, and a refill in several rounds
    *(word for word in SMALL if word != "explore.0.n=4"),
    *("explore.1.n=4", "explore.2.target=3", "train.problems=2", f"train.steps={STEPS}", "train.save_every=2"),
    *("train.evaluate_every=3", "train.lag=1"),
]


def lagging(*overrides: str) -> Recipe:
    return load_recipe("greso", [*RUN, *overrides])


def start(folder: Path, *overrides: str) -> Started:
    again = ["--resume"] if (folder / "config.yaml").exists() else []
    words = ["train", "greso", *RUN, *overrides, "--out", str(folder), *again]
    return begun(words, folder.with_name(f"{folder.name}-errors.txt"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    process = start(folder)
    assert process.wait() == 0, process.errors()
    return folder


def sampler_of(parent: int) -> int:
    """The sampling process of a run."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    [pid] = [pid for pid in found if b"sampling_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_lagging_run_equals_one_step_after_another_by_hand(whole: Path) -> None:
    """Oracle: two models, one that samples step t + 1 with version t - 1, and one that learns step t."""
    made = lagging("train.lag=0", "objective.correction={truncate: {}}")
    with threads_of_a_rank():
        policy, _ = ready(load_policy(made.model, made.policy, made.seed))
        older, _ = ready(load_policy(made.model, made.policy, made.seed))
        trainer = build(made, policy, Ranks(), Clock())
        sampler = LocalSampler(older, made.sample)
        collect = Collector(sampler, made.task, made.reward, Ranks(), Clock(), prompt_end=older.prompt_end)
        sampled: list[Explored] = [trainer.explorer.explore(1, made.train.problems, collect, 0.0)]
        for step in range(1, STEPS + 1):
            if step < STEPS:
                sampled.append(trainer.explorer.explore(step + 1, made.train.problems, collect, step / STEPS))
            rows, _ = assign(sampled[step - 1].groups, made.credit, step, trainer.all_rows, policy.encode)
            trainer.learner.update(rows, (step - 1) / STEPS)
            older.model.load_state_dict(policy.model.state_dict())
            sampler.take(step, lambda folder: None)
    made.task.close()
    store = RolloutStore(whole / "rollouts")
    for step, explored in enumerate(sampled, 1):
        expected = [rollout for group in explored.groups for rollout in group.rollouts]
        found = store.read(step)
        assert [r.policy_version for r in found] == [max(0, step - 2)] * len(expected)
        assert [r.token_ids.tolist() for r in found] == [r.token_ids.tolist() for r in expected]
        assert [r.logprobs_T.tobytes() for r in found] == [r.logprobs_T.tobytes() for r in expected]
    exported = load_policy(str(whole / "model")).model.state_dict()
    assert all(torch.equal(exported[name], tensor) for name, tensor in policy.model.state_dict().items())


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stopped_run_resumes_and_ends_as_the_undisturbed_one(ranks: int, whole: Path, tmp_path: Path) -> None:
    """SIGTERM, then kill -9: the sampling process ends with the run, also while it samples."""
    folder, undisturbed = tmp_path / "run", whole
    if ranks == 2:  # other ranks, other last bits
        undisturbed = tmp_path / "undisturbed"
        assert start(undisturbed, "train.ranks=2").wait() == 0
    for step, sent, status in ((1, signal.SIGTERM, 143), (3, signal.SIGKILL, -9)):
        process = start(folder, f"train.ranks={ranks}")
        process.wait_for((folder / f"rollouts/train-{step:08d}.parquet").exists)
        sampler = sampler_of(process.pid)
        process.send(sent)
        assert process.wait() == status, process.errors()
        wait_until(lambda: not alive(sampler))  # noqa: B023 - called at once
    process = start(folder, f"train.ranks={ranks}")
    assert process.wait() == 0, process.errors()
    assert contents(folder) == contents(undisturbed)


def test_a_sampler_that_is_killed_ends_the_run_with_its_last_step_saved(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(folder)
    process.wait_for((folder / "rollouts/train-00000001.parquet").exists)
    os.kill(sampler_of(process.pid), signal.SIGKILL)
    assert process.wait() == 2
    said = process.errors()
    assert "the sampling process was killed by signal 9, as when memory runs out" in said
    assert "goes on after step" in said
    process = start(folder)
    assert process.wait() == 0, process.errors()
    assert [row["step"] for row in RunFolder.open(folder).metrics()] == [*range(1, STEPS + 1)]


def test_a_failed_exploration_is_raised_after_its_step_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step 1 is on record with its update; explorer and collector are as before step 2."""
    made = recipe("train.lag=1", "objective.correction=null")
    with threads_of_a_rank():
        trainer = build(made, ready(load_policy(made.model))[0], Ranks(), Clock())
    whole, states, recorded = trainer.explorer.explore, list[Any](), list[int]()

    def explore(step: int, *arguments: Any) -> Explored:
        if step == 1:
            explored = whole(step, *arguments)
            states.append(deepcopy((trainer.explorer.state_dict(), trainer.collect.state_dict())))
            return explored
        whole(step, *arguments)
        raise UserError("there are no more problems")

    monkeypatch.setattr(trainer.explorer, "explore", explore)
    watch = Watcher(lambda step, *rest: recorded.append(step), lambda step: None, lambda step: None)
    try:
        trainer.explorer.prepare()
        trainer.sync_weights(0)
        with pytest.raises(UserError, match="no more problems"):
            list(trainer.steps(watch))
        state = trainer.state()
    finally:
        trainer.collect.close()
        made.task.close()
    assert recorded == [1]
    assert state["counters"]["step"] == 1
    assert (state["explorer"], state["collector"]) == states[0]
    assert "ahead" not in state


def test_an_explored_step_is_equal_after_it_was_saved(tmp_path: Path) -> None:
    made = recipe()
    trainer = build(made, ready(load_policy(made.model))[0], Ranks(), Clock())
    before = Problem("p", "", {"x": [1, None]}, metadata={"a": 1.5}, messages_before=({"role": "system"},), tools=({},))
    try:
        trainer.explorer.prepare()
        trainer.sync_weights(0)
        explored = trainer.explorer.explore(1, 3, trainer.collect, 0.0)
    finally:
        made.task.close()
    explored = Explored([*explored.groups, Group(before, "train:1:p")], {**explored.metrics, "explore/x": float("nan")})
    ahead = Ahead(True, trainer.explorer, trainer.collect, 3, Clock())
    assert ahead.state_dict() == {}
    ahead.explored = explored
    ahead.save(tmp_path)
    other = Ahead(True, trainer.explorer, trainer.collect, 3, Clock())
    other.load(json.loads(json.dumps(ahead.state_dict())), tmp_path)
    assert other.explored is not None
    assert [(g.id, g.problem) for g in other.explored.groups] == [(g.id, g.problem) for g in explored.groups]
    assert [[plain(r) for r in g.rollouts] for g in other.explored.groups] == [
        [plain(r) for r in g.rollouts] for g in explored.groups
    ]
    np.testing.assert_equal(other.explored.metrics, explored.metrics)
    other.load({}, tmp_path)
    assert other.explored is None


def test_the_budget_of_tokens_ends_a_lagging_run_at_the_first_step_that_spends_it(tmp_path: Path) -> None:
    run = outrider.train(recipe("train.lag=1", "train.steps=null", "train.tokens=1500"), out=tmp_path / "run")
    tokens = [row["tokens"] for row in RunFolder.open(run.path).metrics()]
    assert tokens[-1] >= 1500 > tokens[-2]


def test_what_was_sampled_ahead_is_trained_on_when_the_seconds_are_over(tmp_path: Path) -> None:
    """Step 2 is sampled before step 1 has taken any time; nothing is sampled for step 3."""
    run = outrider.train(recipe("train.lag=1", "train.steps=null", "train.seconds=0.001"), out=tmp_path / "run")
    assert [row["step"] for row in RunFolder.open(run.path).metrics()] == [1, 2]
    assert RolloutStore(run.path / "rollouts").steps() == [1, 2]


def test_a_rank_has_a_core_of_its_own_and_one_for_its_sampling_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "usable_cores", lambda: list(range(6)))
    monkeypatch.setattr(estimate, "usable_cores", lambda: list(range(6)))
    host = Devices(1, 2**40, "this machine", host=True)
    for words, ranks in ((["train.lag=1"], 3), (["train.lag=1", "train.ranks=2"], 2), ([], 6)):
        made = load_recipe("grpo", words)
        assert (engines.processes_of(made) or 6) == layout_of(made, host).processes == ranks


def test_an_adapter_is_sampled_from_with_its_weights_merged(tmp_path: Path) -> None:
    """The probe of each weight sync compares the process with the learner."""
    made = recipe("train.lag=1", "train.steps=3", "policy.lora={rank: 4}", "learn.lr=1e-3")
    rows = RunFolder.open(outrider.train(made, out=tmp_path / "run").path).metrics()
    assert all(row["sync/probe_max"] < 1e-4 for row in rows)
    assert rows[-1]["learn/sampler_kl_k3"] > 0


def test_the_sampling_process_samples_as_the_local_sampler_does() -> None:
    """Equal to the last bit, with new weights, branches, stop texts and kept KV caches."""
    made = recipe("sample.max_tokens=24", 'sample.stop=["+"]')
    with threads_of_a_rank():
        policy, _ = ready(load_policy(made.model))
        parts = SamplerParts(made.model, made.policy, made.seed, policy.path, made.sample, torch.get_num_threads())
        local, apart = LocalSampler(policy, made.sample), SamplingProcess(parts)
        learner = LocalLearner(policy.model, made.learn, PolicyLoss(made.objective, made.sample.max_tokens))
        requests = [request(f"p{i}", [5, 6, 7 + i], n=3, seed=7) for i in range(2)]
        try:
            for version in range(2):
                with torch.no_grad():
                    for parameter in policy.model.parameters():
                        parameter.mul_(1 + 0.01 * version)
                assert local.take(version, learner.export) == apart.take(version, learner.export)
                expected, found = local.sample(requests), apart.sample(requests)
                assert [same(r) for r in found] == [same(r) for r in expected]
                [parent, *_] = [r for r in expected if len(r.token_ids) > 2]
                branch = [branch_of(parent, 2, 3, first_member=9)]
                assert [same(r) for r in apart.sample(branch)] == [same(r) for r in local.sample(branch)]
            with local.keeping() as kept, apart.keeping() as kept_apart:
                assert [same(r) for r in apart.sample(requests)] == [same(r) for r in local.sample(requests)]
                for one in (kept, kept_apart):
                    one.drop([expected[0].id])
            with pytest.raises(UserError, match="token"):
                apart.sample([request("long", [5] * 5000)])
            assert [same(r) for r in apart.sample(requests)] == [same(r) for r in local.sample(requests)]
        finally:
            apart.close()
    with pytest.raises(EngineLostError, match="the sampling process was killed by signal 9"):
        apart.sample(requests)


def same(rollout: Any) -> tuple[Any, ...]:
    return (rollout.id, rollout.token_ids.tolist(), rollout.logprobs_T.tobytes(), rollout.stop, rollout.policy_version)


def test_a_lag_is_corrected_unless_said_otherwise() -> None:
    assert load_recipe("grpo", ["train.lag=1"]).objective.correction == Truncate()
    assert load_recipe("grpo", ["train.lag=1", "objective.correction=null"]).objective.correction is None
    assert load_recipe("grpo", ["train.lag=0"]).objective.correction is None


SERVERS = 'engine.sampler={vllm: {servers: ["http://127.0.0.1:1"]}}'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.lag=2"], "train.lag"),
        (["engine.sampler=vllm"], "vLLM in the run's own processes shares their GPUs"),
        (["engine=tinker", "policy.lora={rank: 4}", "objective.kl=0"], "train.lag is not supported with engine=tinker"),
    ],
)
def test_what_cannot_run_at_the_same_time_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_recipe("grpo", ["train.lag=1", *words])


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("entropy-shaping", [SERVERS], "has no entropies"),
        ("attnrl", [], "needs the policy's attention, which train.lag=1"),
    ],
)
def test_a_recipe_that_reads_the_policy_while_it_changes_is_refused(name: str, words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_recipe(name, ["train.lag=1", *words])


def test_seconds_of_overlapped_phases_count_once() -> None:
    assert training_seconds({"step": 1, "learn": 2.0, "wait": 1.0, "overlapped_sample": 2.5, "record": 4.0}) == 3.0


def test_a_step_without_its_overlapped_phases_is_its_time_on_disk_and_in_the_viewer(whole: Path) -> None:
    run = RunFolder(whole)
    spent = [sum(s for phase, s in row.items() if phase in PHASES) for row in run.timing()]
    assert any(row.get("overlapped_sample", 0.0) > 0 for row in run.timing())
    for row, seconds, metrics in zip(run.timing(), spent, run.metrics(), strict=True):
        assert row["tokens_per_second"] == pytest.approx(metrics["step_tokens"] / seconds)
    assert _seconds(whole) == pytest.approx(sum(spent))


def test_the_sampling_process_ends_with_a_killed_run_also_while_it_samples() -> None:
    """Two hundred thousand responses take four minutes on a fast core."""
    code = (
        "from test_lag import *\n"
        "made = recipe('sample.max_tokens=96')\n"
        "parts = SamplerParts(made.model, made.policy, 0, ready(load_policy(made.model))[0].path, made.sample, 1)\n"
        "apart = SamplingProcess(parts)\n"
        "print(apart._process.pid, flush=True)\n"
        "apart.sample([request('p', [5, 6, 7], n=200_000)])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        sampling = int(run.stdout.readline())
        busy = processor_seconds(sampling) + 5  # beyond its imports, it samples
        wait_until(lambda: processor_seconds(sampling) > busy)
        run.kill()
    killed = time.monotonic()
    wait_until(lambda: not alive(sampling))
    assert time.monotonic() - killed < 100


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
