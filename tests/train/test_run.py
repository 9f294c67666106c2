"""A run as a whole: its folder, kill and resume, refusals, the stop at non-finite updates, the exported model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_run import SMALL, contents, recipe
from transformers import AutoModelForCausalLM, AutoTokenizer

from child_processes import Started, begun, begun_by_the_interpreter
from outrider.commands.train_command import train_command
from outrider.errors import UserError
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.train.evaluate import Evaluated, Evaluator
from outrider.train.recorder import Recorder
from unpainted import painted


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    with painted():
        assert train_command(recipe(), folder) == 0
    return folder


@pytest.mark.parametrize("name", ["grpo", "dr-grpo"])
def test_a_run_leaves_what_it_promises(name: str, tmp_path: Path, finished: Path) -> None:
    folder = finished
    if name != "grpo":
        folder = tmp_path / "run"
        with painted():
            train_command(recipe(name=name), folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert {"tokens", "reward", "entropy", "solved", "mixed", "unsolved", "truncated", "learn/loss"} <= rows[0].keys()
    assert rows[-1]["tokens"] == sum(row["step_tokens"] for row in rows)
    store = RolloutStore(folder / "rollouts")
    for step in (1, 2, 3, 4):
        rollouts = store.read(step)
        assert len(rollouts) == 16
        assert sum(len(r.token_ids) for r in rollouts) == rows[step - 1]["step_tokens"]
        assert {r.policy_version for r in rollouts} == {step - 1}
        for group in {r.group_id for r in rollouts}:
            members = [r for r in rollouts if r.group_id == group]
            assert [r.member for r in members] == [0, 1, 2, 3]
            mixed = 0 < sum(r.success for r in members) < 4
            assert {r.unused for r in members} == ({""} if mixed else {"no advantage"})
            assert sum(r.advantage for r in members) == pytest.approx(0, abs=1e-9)
    assert len(store.read(0, "evaluate")) == len(store.read(4, "evaluate")) == 8
    assert {p.name for p in (folder / "evaluations").iterdir()} == {"step-00000000.json", "step-00000004.json"}
    timed = [json.loads(line) for line in (folder / "eval_timing.jsonl").read_text().splitlines()]
    assert [row["step"] for row in timed] == [0, 4]
    assert all(row["evaluate"] > 0 for row in timed)
    assert (folder / "curves.png").stat().st_size > 10_000
    assert "pass@1" in (folder / "table.md").read_text()


def test_the_times_of_evaluations_contain_their_sampling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Evaluator.run
    taken: list[float] = []

    def timed(evaluator: Evaluator) -> Evaluated:
        begin = time.perf_counter()
        found = run(evaluator)
        taken.append(time.perf_counter() - begin)
        return found

    stepped = Recorder.stepped

    def slow(recorder: Recorder, *given: Any) -> None:
        time.sleep(0.2)
        stepped(recorder, *given)

    monkeypatch.setattr(Evaluator, "run", timed)
    monkeypatch.setattr(Recorder, "stepped", slow)
    with painted():
        train_command(recipe("train.evaluate_every=2"), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    seconds = [row["evaluate"] for row in folder.evaluation_timing()]
    assert len(seconds) == 3  # before training, and after steps 2 and 4
    assert all(inside <= outside < inside + 0.15 for inside, outside in zip(taken, seconds, strict=True))
    # an evaluation between two steps is in neither of them, and what the step before it wrote is not lost
    rows = {row["step"]: row for row in folder.timing()}
    assert "evaluate" not in rows[3]
    assert rows[3]["record"] > 0.2


def test_the_exported_model_is_an_ordinary_one(finished: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(finished / "model")
    tokenizer = AutoTokenizer.from_pretrained(finished / "model")
    assert model.config._attn_implementation == "sdpa"
    ids = tokenizer("3 4 5>12:", return_tensors="pt")["input_ids"]
    assert model.generate(ids, do_sample=False, max_new_tokens=20).shape[1] > ids.shape[1]
    base = AutoModelForCausalLM.from_pretrained(Path(__file__).parents[2] / "src/outrider/base/countdown")
    moved = [not torch.equal(a, b) for a, b in zip(model.parameters(), base.parameters(), strict=True)]
    assert all(moved)


def test_two_equal_runs_are_equal_to_the_last_bit(finished: Path, tmp_path: Path) -> None:
    train_command(recipe(), tmp_path / "again")
    assert contents(tmp_path / "again") == contents(finished)


def test_another_seed_is_another_run(finished: Path, tmp_path: Path) -> None:
    train_command(recipe("seed=1", "evaluate.before=false", "evaluate.after=false"), tmp_path / "other")
    ours, theirs = (RolloutStore(f / "rollouts").read(1) for f in (tmp_path / "other", finished))
    assert [r.text for r in ours] != [r.text for r in theirs]


def start(folder: Path, *overrides: str) -> Started:
    """A run in a process of its own, begun or gone on with."""
    again = ["--resume"] if (folder / "config.yaml").exists() else []
    words = ["train", "grpo", *SMALL, *overrides, "--out", str(folder), *again]
    return begun(words, folder.with_name(f"{folder.name}-errors.txt"))


MOMENTS = {
    "nothing is saved yet": "config.yaml",
    "first checkpoint": "checkpoints/step-00000000",
    "checkpoint": "checkpoints/step-00000003",
    "between two": "rollouts/train-00000008.parquet",
}


@pytest.mark.parametrize(
    ("ranks", "moments"),
    [
        (1, ["nothing is saved yet", "between two"]),
        pytest.param(2, ["between two"], marks=pytest.mark.slow),  # as in test_signals.py, where each of two is killed
        pytest.param(1, list(MOMENTS), marks=pytest.mark.slow),
        pytest.param(2, list(MOMENTS), marks=pytest.mark.slow),
    ],
    ids=["1", "2", "1-all", "2-all"],
)
def test_killed_at_any_moment_and_resumed_ends_the_same(ranks: int, moments: list[str], tmp_path: Path) -> None:
    """kill -9 before the first evaluation, just after a checkpoint and between two; bit-identical all the same."""
    often = ("train.steps=9", "train.save_every=3", "train.evaluate_every=4")
    overrides = (f"train.ranks={ranks}", "train.problems=2", *often)
    whole = start(tmp_path / "whole", *overrides)
    assert whole.wait() == 0, whole.errors()
    folder = tmp_path / "killed"
    for moment in moments:
        process = start(folder, *overrides)
        process.wait_for((folder / MOMENTS[moment]).exists)
        process.send(signal.SIGKILL)
        assert process.wait() == -9
    last = start(folder, *overrides)
    assert last.wait() == 0, last.errors()
    assert contents(folder) == contents(tmp_path / "whole")
    assert list((folder / "superseded").rglob("*.parquet"))  # what the kills made worthless is kept, not overwritten


def test_resuming_with_other_settings_is_refused_with_the_difference(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_command(recipe("train.steps=2"), folder)
    with pytest.raises(UserError, match=r"started with other settings \(learn.lr: 0.0001 -> 0.001; .*--force"):
        train_command(recipe("train.steps=4", "learn.lr=0.001"), folder, resume=True)
    with pytest.raises(UserError, match=r"task.countdown.seed: 0 -> 3"):
        train_command(recipe("train.steps=2", "task.countdown.seed=3"), folder, resume=True)
    assert train_command(recipe("train.steps=4"), folder, resume=True, force=True) == 0
    # more steps, resumed exactly: what the uninterrupted run of four steps has
    ours, theirs = contents(folder), contents(finished)
    assert ours["metrics"] == theirs["metrics"]


def test_a_folder_with_a_run_or_without_one(finished: Path, tmp_path: Path) -> None:
    before = contents(finished)
    with pytest.raises(UserError, match="holds a run already"):
        train_command(recipe(), finished)
    assert contents(finished) == before
    with pytest.raises(UserError, match="holds no run"):
        train_command(recipe(), tmp_path / "nothing", resume=True)


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    train_command(recipe(), folder)
    reference = contents(folder)
    weights = folder / "checkpoints" / "step-00000004" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    train_command(recipe(), folder, resume=True)
    assert "step-00000004/weights.safetensors is damaged" in capsys.readouterr().err
    assert "step-00000004/weights.safetensors is damaged" in (folder / "notices.txt").read_text()
    assert contents(folder) == reference
    for checkpoint in (folder / "checkpoints").glob("step-*"):
        (checkpoint / "optimizer.pt").write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint can be loaded"):
        train_command(recipe(), folder, resume=True)


@pytest.mark.parametrize(("device", "deterministic", "told"), [("cpu", 0, 0), ("cuda", 0, 1), ("cuda", 1, 0)])
def test_a_resumed_run_says_where_last_bits_are_lost(
    device: str, deterministic: int, told: int, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    there = SimpleNamespace(device=torch.device(device))
    monkeypatch.setattr("outrider.train.run.placement", lambda _: there)
    again = recipe("train.steps=5", f"learn.deterministic={bool(deterministic)}")
    train_command(again, folder, resume=True, force=True)
    assert (folder / "notices.txt").read_text().count("the last bits of gradients vary") == told


def test_what_belongs_to_a_checkpoint_waits_for_the_disk_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    train_command(recipe("evaluate.before=true", "evaluate.after=false"), tmp_path / "run")
    begun, first, second = (i for i, name in enumerate(synced) if name == ".manifest.json.tmp")
    both = [f"train-0000000{step}.parquet" for step in (1, 2)]
    assert {*both, "rollouts", "metrics.jsonl", "timing.jsonl", "eval_timing.jsonl"} <= set(synced[begun:first])
    assert not set(both) & set(synced[first:])
    assert {"train-00000003.parquet", "train-00000004.parquet", "metrics.jsonl"} <= set(synced[first:second])


def test_three_non_finite_updates_in_a_row_stop_the_run_and_save_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outrider.credit import assign

    honest = assign.row_of
    monkeypatch.setattr(assign, "row_of", lambda rollout, a, after: honest(rollout, np.full_like(a, np.nan), after))
    folder = tmp_path / "run"
    with pytest.raises(UserError, match="step 3: loss or gradient was not finite in 3 steps in a row"):
        train_command(recipe("train.steps=9", "evaluate.before=false"), folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["learn/skipped_nonfinite"] for row in rows] == [1, 1, 1]
    assert (folder / "checkpoints" / "step-00000003").is_dir()
    told = {r.unused for r in RolloutStore(folder / "rollouts").read(3)}
    assert "non-finite update" in told
    assert "" not in told
    with pytest.raises(UserError, match="step 6: loss or gradient was not finite in 3 steps in a row"):
        train_command(recipe("train.steps=9", "evaluate.before=false"), folder, resume=True)


@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_leaves_one_sentence_and_a_run_that_resumes(ranks: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    short = ["train.problems=2", "evaluate.problems=2"]
    words = ["train", "grpo", *SMALL, *short, "train.steps=50", f"train.ranks={ranks}", "--out", str(folder)]
    begin = begun if ranks == 1 else begun_by_the_interpreter
    process = begin(words, tmp_path / "errors.txt")
    process.wait_for((folder / "rollouts" / "train-00000002.parquet").exists)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the run gets it
    process.last_words()
    assert process.wait() == 130
    again = recipe(*short, "train.steps=4")
    assert train_command(again, folder, resume=True, force=True) == 0
    assert "steps: 4" in (folder / "config.yaml").read_text()
    assert "steps: 50" in next((folder / "superseded").glob("config-1-*.yaml")).read_text()
