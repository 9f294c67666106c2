"""What a bench needs of a run: evaluations at shares of its budget, a budget of seconds, other held-out problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.commands.train_command import train_command
from outrider.config import Recipe, load_recipe
from outrider.config.train import EvaluateOptions
from outrider.errors import UserError
from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder
from outrider.tasks import Countdown
from outrider.tasks.heldout import heldout_problems

TINY = [
    "train={problems: 2, tokens: null, trackers: [], ranks: 1, save_every: 2}",
    "explore.0.n=2",
    "sample.max_tokens=24",
    "task.countdown.sizes=[3]",
    "evaluate={problems: 2, n: 2, bootstrap: 0, greedy: false}",
]


def tiny(*overrides: str) -> Recipe:
    return load_recipe("grpo", [*TINY, *overrides])


def test_evaluations_stand_at_the_first_step_beyond_each_share(tmp_path: Path) -> None:
    train_command(tiny("train.tokens=400", "train.evaluate_at=[0.3, 0.31, 0.7]"), tmp_path / "run")
    run = RunFolder.existing(tmp_path / "run")
    tokens = {row["step"]: row["tokens"] for row in run.metrics()}
    beyond = [min(step for step, spent in tokens.items() if spent >= share * 400) for share in (0.3, 0.31, 0.7, 1.0)]
    assert list(run.evaluations()) == sorted({0, *beyond})
    assert len(run.evaluations()) >= 4


def test_a_resumed_run_evaluates_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    train_command(tiny("train.steps=5", "train.evaluate_at=[0.5]"), tmp_path / "whole")
    train_command(tiny("train.steps=2", "train.evaluate_at=[0.5]", "evaluate.after=false"), tmp_path / "run")
    longer = tiny("train.steps=5", "train.evaluate_at=[0.5]")
    train_command(longer, tmp_path / "run", resume=True, force=True)
    assert list(RunFolder(tmp_path / "whole").evaluations()) == [0, 3, 5]
    assert list(RunFolder(tmp_path / "run").evaluations()) == [0, 1, 3, 5]  # 1 of 2 was half as well


def test_a_run_of_seconds_stops_at_the_first_step_beyond_them(tmp_path: Path) -> None:
    train_command(tiny("train.seconds=0.3", "evaluate.before=false"), tmp_path / "run")
    spent = [training_seconds(row) for row in RunFolder(tmp_path / "run").timing()]
    assert sum(spent[:-1]) < 0.3 <= sum(spent)
    state = json.loads((sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1] / "state.json").read_bytes())
    assert state["counters"]["seconds"] == pytest.approx(sum(spent))


def test_skipped_problems_are_the_first_ones() -> None:
    task = Countdown()
    first, second = (heldout_problems(task, EvaluateOptions(problems=8, skip=skip)) for skip in (0, 8))
    assert [*first, *second] == task.heldout(16)
    assert not {p.id for p in first} & {p.id for p in second}


def test_nothing_left_beyond_the_skipped_problems_is_refused() -> None:
    few = Countdown(sizes=(2,), highest=2, cap=4)
    with pytest.raises(UserError, match=r"holds out no problems beyond the first 300 \(evaluate.skip\)"):
        heldout_problems(few, EvaluateOptions(problems=8, skip=300))
