"""Runs that the studies share: what is finished is read, and what was interrupted goes on."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from study_code import STUDIES


@pytest.mark.parametrize(("override", "last"), [("evaluate.after=true", "table.md"), ("evaluate.after=false", "model")])
def test_a_run_that_was_interrupted_goes_on_and_a_finished_one_is_read(
    override: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(STUDIES)
    models = importlib.import_module("_models")
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(models, "command", lambda *words: asked.append(words))
    run = tmp_path / "grpo-3"
    assert models.trained(tmp_path, "grpo", "grpo", 3, override) == run
    assert "--resume" not in asked[-1]
    run.mkdir()
    models.trained(tmp_path, "grpo", "grpo", 3, override)
    assert asked[-1] == (*asked[0], "--resume")
    (run / last).touch()
    models.trained(tmp_path, "grpo", "grpo", 3, override)
    assert len(asked) == 2
