"""A run whose steps teach nothing says so while it goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from outrider.cli import main
from outrider.record import Group, Problem, Rollout, StopReason, Verdict, correct, incorrect
from outrider.screen.signal_warnings import SignalWatch

NONE = np.zeros(0, np.int32)


def groups(*rewards: float | None, stop: StopReason = StopReason.STOP) -> list[Group]:
    """Groups of two with these rewards."""

    def verified(i: int, reward: float | None) -> Rollout:
        verdict: Verdict = correct("1") if reward else incorrect("0")
        one = Rollout(f"p{i // 2}", "g", i, NONE, NONE, NONE.astype(np.float32), NONE, stop=stop)
        return one.verified(verdict, reward)

    rollouts = [verified(i, reward) for i, reward in enumerate(rewards)]
    return [Group(Problem(f"p{i}", "?"), f"g{i}", tuple(rollouts[2 * i : 2 * i + 2])) for i in range(len(rewards) // 2)]


def test_a_step_of_equal_rewards_is_said_and_one_with_a_difference_is_not():
    [told] = SignalWatch().warnings(groups(0.0, 0.0, 0.0, 0.0), {"learn/updates": 0})
    assert told.startswith("all 4 rewards are 0, ")
    assert SignalWatch().warnings(groups(0.0, 1.0, 0.0, 0.0), {"learn/updates": 1}) == []


def test_groups_that_are_equal_in_themselves_are_no_update():
    [told] = SignalWatch().warnings(groups(1.0, 1.0, 0.0, 0.0), {"learn/updates": 0})
    assert told.startswith("no update")


def test_a_reward_that_is_unknown_counts_for_nothing():
    assert SignalWatch().warnings(groups(None, None, float("nan"), 1.0), {"learn/updates": 1}) == []


def test_a_step_whose_responses_are_all_truncated_is_said():
    cut = groups(0.0, 1.0, stop=StopReason.LENGTH)
    [told] = SignalWatch().warnings(cut, {"learn/updates": 1})
    assert told.startswith("all 2 responses are truncated")
    assert SignalWatch().warnings([*cut, *groups(0.0, 1.0)], {"learn/updates": 1}) == []


def test_a_streak_is_said_at_1_4_and_16_and_begins_anew_after_a_good_step():
    watch, bad = SignalWatch(), groups(0.0, 0.0)
    said = [bool(watch.warnings(bad, {})) for _ in range(20)]
    assert [i + 1 for i, each in enumerate(said) if each] == [1, 4, 16]
    assert watch.warnings(groups(0.0, 1.0), {}) == []
    [told] = watch.warnings(bad, {})
    assert "in a row" not in told


def test_a_run_that_is_truncated_throughout_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["train={problems: 2, steps: 1, tokens: null, ranks: 1, trackers: []}", "sample.max_tokens=2"]
    few += ["evaluate={before: false, after: false}", "explore.0.n=2"]
    assert main(["train", "grpo", *few, "--out", str(tmp_path / "run")]) == 0
    notices = (tmp_path / "run" / "notices.txt").read_text()
    assert "step 1: all 4 responses are truncated" in notices
    assert "step 1: all 4 rewards are 0" in notices
    assert "all 4 responses are truncated" in capsys.readouterr().err
