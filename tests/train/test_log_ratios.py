"""The ratios of training on the record: which rollouts have them, and that they are those of the loss."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_run import SMALL

from outrider.commands.train_command import train_command
from outrider.config import load_recipe
from outrider.record import Group, Problem, Rollout
from outrider.record.rollout import LOG_RATIO_STEP
from outrider.record.row import WeightedRow, row_of
from outrider.record.store import RolloutStore
from outrider.train.log_ratios import with_log_ratios

NONE = np.zeros(0, np.int32)


def rollout(member: int, seed: int, tokens: int = 2, **more: object) -> Rollout:
    ids, logprobs = np.arange(tokens, dtype=np.int32), np.full(tokens, -1.0, np.float32)
    return Rollout("p", "g", member, NONE, ids, logprobs, more.pop("prefix", NONE), seed=seed, **more)  # type: ignore[arg-type]


def rows_of(*rollouts: Rollout) -> list[WeightedRow]:
    return [row_of(one, np.ones(one.trainable_tokens), NONE) for one in rollouts]


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_each_rollout_has_the_ratios_of_its_row_and_one_without_a_pass_has_none() -> None:
    first, second, third = rollout(0, 10), rollout(1, 11), rollout(2, 12)
    group = Group(Problem("p", ""), "g", (first, second, third))
    rows = rows_of(second, first)
    [made] = with_log_ratios([group], rows, [floats(-1.5, -0.5), None])
    assert [one.log_ratios_T is None for one in made.rollouts] == [True, False, True]
    assert made.rollouts[1].log_ratios_T.tolist() == [-0.5, 0.5]  # type: ignore[union-attr]
    assert with_log_ratios([group], rows, []) == [group], "an engine that does not tell"


def test_rollouts_that_share_a_seed_have_none() -> None:
    twins = rollout(0, 7), rollout(1, 7)
    group = Group(Problem("p", ""), "g", twins)
    [made] = with_log_ratios([group], rows_of(*twins), [floats(0, 0), floats(-9, -9)])
    assert [one.log_ratios_T for one in made.rollouts] == [None, None]


def test_a_path_gives_its_last_tokens_and_observed_ones_have_no_ratio() -> None:
    branch = rollout(
        1, 7, 3, prefix=np.arange(2, dtype=np.int32), parent="g/0", trainable_T=np.array([True, False, True])
    )
    trained = branch.trained_with(floats(-9, -9, -1.25, -5, -0.75))
    assert trained.log_ratios_T.tolist() == [-0.25, 0.0, 0.25]  # type: ignore[union-attr]


def test_rounding_is_the_same_for_all_differences_below_a_step() -> None:
    noise = rollout(0, 1).trained_with(floats(-1 + LOG_RATIO_STEP / 3, -1 - LOG_RATIO_STEP / 3))
    assert noise.log_ratios_T.tolist() == [0.0, 0.0]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step of two updates at a large rate: the second is off-policy, and some of its tokens are clipped."""
    folder = tmp_path_factory.mktemp("ratios") / "run"
    changes = ["learn.minibatches=2", "learn.lr=0.003", "learn.warmup=0 updates", "train.steps=1", "train.trackers=[]"]
    changes += ["evaluate.before=false", "evaluate.after=false", "train.problems=8", "explore.0.n=8"]
    train_command(load_recipe("grpo", [*SMALL, *changes]), folder)
    return folder


def test_the_record_has_the_clipped_share_that_training_reported(run: Path) -> None:
    clipped = 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        metrics = json.loads(line)
        trained = [one for one in RolloutStore(run / "rollouts").read(metrics["step"]) if one.log_ratios_T is not None]
        assert trained
        ratios_N = np.exp(np.concatenate([one.log_ratios_T for one in trained]))  # type: ignore[misc]
        advantages_N = np.concatenate([np.full(len(one.token_ids), one.advantage) for one in trained])
        assert len(ratios_N) == metrics["learn/tokens"]
        low, high = (ratios_N < 0.8) & (advantages_N < 0), (ratios_N > 1.2) & (advantages_N > 0)
        assert metrics["learn/clip_low"] == pytest.approx(low.mean(), abs=2 / len(ratios_N))
        assert metrics["learn/clip_high"] == pytest.approx(high.mean(), abs=2 / len(ratios_N))
        clipped += int(low.sum() + high.sum())
    assert clipped > 10, "or nothing is compared"


def test_a_step_of_one_update_is_on_policy(tmp_path: Path) -> None:
    few = ["train.steps=1", "train.trackers=[]", "evaluate.before=false", "evaluate.after=false"]
    train_command(load_recipe("grpo", [*SMALL, *few]), tmp_path / "run")
    trained = [one for one in RolloutStore(tmp_path / "run/rollouts").read(1) if one.log_ratios_T is not None]
    assert trained
    assert max(np.abs(one.log_ratios_T).max() for one in trained) <= LOG_RATIO_STEP  # type: ignore[arg-type]
