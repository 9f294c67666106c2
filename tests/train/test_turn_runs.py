"""Whole runs of a task with turns: every family of methods, killed and resumed, on one process and on two."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from small_run import contents

from child_processes import begun
from outrider.cli import main
from outrider.model.load import save_policy
from outrider.model.tiny import tiny_policy
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder
from outrider.tasks.hops import CHARACTERS

STEPS = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Random: its turns are seldom calls, and its rollouts have many."""
    folder = tmp_path_factory.mktemp("model") / "random"
    save_policy(tiny_policy(1, characters=CHARACTERS), folder, {})
    return str(folder)


def words(model: str, out: Path, recipe: str, *more: str) -> list[str]:
    small = [
        "task={hops: {hops: [1, 2], limits: {turns: 5}}}",
        f"model={model}",
        "sample.max_tokens=64",
        "train.problems=4",
    ]
    small += [f"train.steps={STEPS}", "train.tokens=null", "train.save_every=1", "train.trackers=[]", "learn.lr=1e-3"]
    # a random model solves nothing: by their lengths its responses differ all the same
    small += ["credit.main=[{overlong: {max_tokens: 64, buffer: 60}}, group_mean]", "train.ranks=1"]
    small += ["evaluate={problems: 2, n: 2, bootstrap: 0, greedy: false, before: false}"]
    return ["train", recipe, *small, *more, "--out", str(out)]


@pytest.mark.parametrize(
    ("recipe", "more"),
    [
        ("tree-grpo", []),
        ("arpo", []),
        ("deep-grpo", ["explore.1.segment=turns", "explore.1.branches=2", "explore.0.n=4"]),
        pytest.param("xrpo", ["explore.0.n=2", "explore.1.total=12"], marks=pytest.mark.slow),
        pytest.param("dars-hw", [], marks=pytest.mark.slow),
        pytest.param("treerl", [], marks=pytest.mark.slow),
    ],
)
def test_methods_run(model: str, tmp_path: Path, recipe: str, more: list[str]) -> None:
    assert main(words(model, tmp_path / "run", recipe, *more)) == 0
    rows = RunFolder(tmp_path / "run").metrics()
    assert len(rows) == STEPS
    for row in rows:
        assert row["turns"] > 1.2
        assert row["observed_tokens"] > 0
        rollouts = list(RolloutStore(tmp_path / "run" / "rollouts").read(int(row["step"])))
        assert row["step_tokens"] == sum(r.trainable_tokens for r in rollouts)
        for rollout in rollouts:
            if rollout.trainable_T is not None:
                assert np.isnan(rollout.logprobs_T[~rollout.trainable_T]).all()
                assert rollout.branch_at == 0 or rollout.trainable_T[0], "a branch begins with a turn"
    assert sum(row["learn/updates"] for row in rows if "learn/updates" in row)


def test_a_killed_run_goes_on_to_the_same_end(model: str, tmp_path: Path) -> None:
    more = ["explore.1.segment=turns", "explore.1.branches=2", "explore.0.n=4"]
    assert main(words(model, tmp_path / "whole", "deep-grpo", *more)) == 0
    process = begun(words(model, tmp_path / "cut", "deep-grpo", *more), tmp_path / "errors.txt")
    process.wait_for((tmp_path / "cut" / "rollouts" / "train-00000002.parquet").exists)
    process.send(signal.SIGKILL)
    process.wait()
    assert main([*words(model, tmp_path / "cut", "deep-grpo", *more), "--resume"]) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_two_processes_draw_what_one_draws(model: str, tmp_path: Path) -> None:
    for ranks in (1, 2):
        status = begun(
            words(model, tmp_path / str(ranks), "grpo", "explore.0.n=4", f"train.ranks={ranks}", "train.steps=1"),
            tmp_path / f"errors-{ranks}.txt",
        ).wait()
        assert status == 0, (tmp_path / f"errors-{ranks}.txt").read_text()
    one, two = (
        [(r.id, r.token_ids.tolist(), r.stop) for r in RolloutStore(tmp_path / str(ranks) / "rollouts").read(1)]
        for ranks in (1, 2)
    )
    assert one == two
