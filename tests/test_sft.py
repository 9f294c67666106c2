"""Making a small model from a task's solutions: what is written, and what happens when it diverges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.config import load_sft
from outrider.errors import UserError
from outrider.model.load import load_policy
from outrider.train.sft_command import sft_command


def test_a_model_is_written_with_the_loss_it_came_to(tmp_path: Path) -> None:
    sft = load_sft("countdown", ["steps=3", "problems=2", "learn.warmup=0 steps"])
    assert sft_command(sft, tmp_path / "m") == 0
    about = json.loads((tmp_path / "m" / "outrider.json").read_text())
    assert list(about["loss"]) == ["0", "1", "2"]
    assert about["loss"]["2"] < about["loss"]["0"]
    assert about["skipped_nonfinite"] == 0
    assert load_policy(str(tmp_path / "m")).model.num_parameters() == 448_128


def test_a_loss_that_stays_not_finite_ends_in_one_sentence_and_no_model(tmp_path: Path) -> None:
    sft = load_sft("countdown", ["steps=6", "problems=2", "learn.lr=1e30"])
    with pytest.raises(UserError, match=r"not finite in 3 steps in a row; no model is written \(lower learn\.lr\)"):
        sft_command(sft, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_fewer_than_three_steps_that_are_not_finite_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step is taken with a finite loss; its enormous weights spoil the two that follow."""
    sft = load_sft("countdown", ["steps=3", "problems=2", "learn.lr=1e30"])
    assert sft_command(sft, tmp_path / "m") == 0
    about = json.loads((tmp_path / "m" / "outrider.json").read_text())
    assert list(about["loss"]) == ["0"]
    assert about["skipped_nonfinite"] == 2
    assert "2 updates skipped" in capsys.readouterr().out
