"""What a run tells the user besides its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from outrider.commands.train_command import train_command
from outrider.config import Recipe, load_recipe
from outrider.measure.evaluation import Evaluation, evaluate
from outrider.record import Rollout, StopReason, correct
from outrider.screen.screen import Screen
from outrider.tasks import Countdown


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        ("train.tokens=1_600_000", "50% | 800k of 1.60M tokens | 0 tokens/s | -:-- left"),
        ("train={tokens: null, steps: 40}", "25% | 10 of 40 steps | 0 steps/s | -:-- left"),
    ],
)
def test_what_was_done_before_a_resume_is_no_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, line: str
) -> None:
    with Screen(load_recipe("grpo", [budget]), tmp_path, shown=True) as screen:
        screen.resumed(step=10, tokens=800_000, seconds=0.0)
    assert capsys.readouterr().err == line + "\n"


def test_what_was_excluded_of_the_data_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [Countdown().train(i) for i in range(6)]
    for name, chosen in (("train", problems), ("heldout", problems[:2])):
        rows = [json.dumps({"problem": p.prompt, "answer": "1"}) + "\n" for p in chosen]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    table = {"train_data": str(tmp_path / "train.jsonl"), "heldout_data": str(tmp_path / "heldout.jsonl")}
    overrides = [
        f"task={json.dumps({'table': {**table, 'prompt': '{problem}'}})}",
        "train={problems: 2, tokens: null, steps: 1, ranks: 1, trackers: []}",
        "explore.0.n=2",
        "sample.max_tokens=8",
        "evaluate={before: false, after: false}",
    ]
    assert train_command(load_recipe("grpo", overrides), tmp_path / "run") == 0
    told = capsys.readouterr().err.splitlines()
    assert told.count("problems of table: 4 train, 2 heldout, 2 excluded") == 1


def test_the_limit_that_ends_the_run_is_the_one_that_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens have a default of 1.6 million, so one step was shown as 0 %, with 283 hours left."""
    recipe = load_recipe("grpo", ["train.steps=4"])
    with Screen(recipe, tmp_path, shown=True) as screen:
        screen.stepped({"step_tokens": 20_000}, seconds=1.0)
    assert capsys.readouterr().err.startswith("25% | 1 of 4 steps | ")
    with Screen(recipe, tmp_path, shown=True) as screen:
        screen.stepped({"step_tokens": 1_200_000}, seconds=1.0)
    assert capsys.readouterr().err.startswith("75% | 1.20M of 1.60M tokens | "), "tokens end it before the steps do"


def test_the_time_left_includes_the_evaluations_to_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = 100.0
    monkeypatch.setattr("outrider.screen.progress.time.monotonic", lambda: now)
    recipe = load_recipe("grpo", ["train={steps: 4, tokens: null, evaluate_at: [0.5]}"])
    evaluation = evaluation_of(recipe)
    with Screen(recipe, tmp_path, shown=True) as screen:
        screen.phase("evaluate")
        now += 30
        screen.evaluated(0, evaluation)
        screen.phase("explore")
        now += 10
        screen.stepped({"step_tokens": 100}, seconds=10.0)
        assert screen._progress._left() == "1:30", "three steps of 10 s, and two evaluations of 30 s: halfway and last"
        now += 10
        screen.stepped({"step_tokens": 100}, seconds=20.0)
        assert screen._progress._left() == "1:20", "the one halfway is due now"
        screen.phase("evaluate")
        now += 30
        screen.evaluated(2, evaluation)
        assert screen._progress._left() == "0:50"


def evaluation_of(recipe: Recipe) -> Evaluation:
    problem = recipe.task.heldout(1)[0]
    ids = np.zeros(2, np.int32)
    one = Rollout(
        problem_id=problem.id,
        group_id="g",
        member=0,
        prompt_ids=ids,
        prefix_ids=ids[:0],
        token_ids=ids,
        logprobs_T=np.zeros(2, np.float32),
        stop=StopReason.STOP,
        verdict=correct("1"),
    )
    return evaluate([problem], [one])


def test_with_one_sample_pass_at_1_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe("grpo")
    Screen(recipe, tmp_path, shown=True).evaluated(0, evaluation_of(recipe))
    assert capsys.readouterr().err.count("pass@1") == 1
