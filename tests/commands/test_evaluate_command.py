"""``outrider evaluate``: what it leaves behind when it cannot begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.commands import evaluate_command
from outrider.config import Evaluate
from outrider.errors import UserError
from outrider.processes.ranks import Ranks
from outrider.tasks import Countdown


def test_what_cannot_be_evaluated_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="is not a shipped base"):
        evaluate_command._evaluate(Ranks(), Evaluate(model="base:cuntdown", task=Countdown()), tmp_path / "out")
    monkeypatch.setattr(Countdown, "heldout", lambda task, n: [])
    with pytest.raises(UserError, match="task 'countdown' holds out no problems"):
        evaluate_command._evaluate(Ranks(), Evaluate(model="base:countdown", task=Countdown()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_evaluation_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Evaluate(
        model="base:countdown",
        task=Countdown(),
        sample={"max_tokens": 8},
        evaluate={"n": 2, "problems": 3, "bootstrap": 100},
    )
    assert evaluate_command._evaluate(Ranks(), asked, tmp_path / "out") == 0
    assert (tmp_path / "out" / "table.md").read_text().startswith("| level")
    assert "held-out countdown" in capsys.readouterr().out
