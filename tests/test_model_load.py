"""Loading and saving a policy beside the progress of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers.utils import logging

from outrider.model.load import load_policy, save_policy


@pytest.fixture(params=[True, False])
def bars(request: pytest.FixtureRequest) -> bool:
    """Whether whoever imports us wants the bars of transformers."""
    switch = {True: logging.enable_progress_bar, False: logging.disable_progress_bar}
    before = logging.is_progress_bar_enabled()
    switch[request.param]()
    yield request.param
    switch[before]()


def test_weights_come_and_go_without_a_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str], bars: bool) -> None:
    save_policy(load_policy("base:countdown"), tmp_path / "model")
    load_policy(str(tmp_path / "model"))
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == bars, "what others have chosen is theirs"
