"""The parts of the objective that live longer than a step, in a run: the reference and the entropy's coefficient."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.commands.train_command import train_command
from outrider.config import Recipe, load_recipe
from outrider.record.store import RolloutStore

TARGET = 0.152  # between the entropies of the first steps
SMALL = [
    "train.problems=4",
    "explore.0.n=4",
    "train.tokens=null",
    "train.save_every=1",
    "train.trackers=[]",
    "train.ranks=1",
    "sample.max_tokens=40",
    "task.countdown.sizes=[3,4]",
    "evaluate.before=false",
    "evaluate.after=false",
    "learn.lr=1e-3",
    "objective.kl={coef: 0.5, reset_every: 2}",
    f"objective.entropy={{bonus: 0.002, target: {TARGET}, step: 0.001}}",
]
STEPS = 4


def recipe(steps: int) -> Recipe:
    return load_recipe("grpo", [*SMALL, f"train.steps={steps}"])


def learned(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert train_command(recipe(STEPS), folder) == 0
    return folder


def test_every_second_step_the_policy_becomes_the_reference(whole: Path) -> None:
    """One update a step: in the step after a reset, policy and reference are the same."""
    steps = learned(whole)
    assert [step.get("learn/reference_resets", 0) for step in steps] == [0, 1, 0, 1]
    assert [step["learn/kl_reference"] == 0 for step in steps] == [True, False, True, False]


def test_the_entropy_of_the_rollouts_steers_the_coefficient(whole: Path) -> None:
    store = RolloutStore(whole / "rollouts")
    coefficient, used = 0.002, []
    for step in range(1, STEPS + 1):
        entropy = np.concatenate([r.entropies_T for r in store.read(step)]).mean(dtype=np.float64)
        used.append(coefficient if entropy <= TARGET else 0.0)
        coefficient = min(max(coefficient + (0.001 if entropy < TARGET else -0.001), 0.0), 0.005)
    assert [step["learn/entropy_coefficient"] for step in learned(whole)] == pytest.approx(used)
    assert 0.0 in used[1:]
    assert max(used) > 0  # it was above the target and below


def test_a_run_that_stopped_at_a_reset_goes_on_as_if_it_had_not(whole: Path, tmp_path: Path) -> None:
    train_command(recipe(2), tmp_path / "run")
    train_command(recipe(STEPS), tmp_path / "run", resume=True, force=True)
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes()
