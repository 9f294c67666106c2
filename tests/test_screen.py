"""What a run tells the user besides its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.config import load_recipe
from outrider.screen.screen import Screen
from outrider.tasks import Countdown
from outrider.train.train_command import train_command


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


def test_what_was_left_out_of_the_data_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert told.count("problems of table: 4 train, 2 heldout, 2 left out") == 1
