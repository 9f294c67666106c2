"""What trackers are given, and what is said where one cannot be had."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from outrider.errors import UserError
from outrider.screen.trackers import open_trackers


def test_an_unknown_tracker_and_a_missing_package_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_trackers([], tmp_path, {}) == ()
    with pytest.raises(UserError, match="unknown tracker 'tensorbord'; did you mean 'tensorboard'"):
        open_trackers(["tensorbord"], tmp_path, {})
    for package in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, package, None)  # what an import finds where nothing is installed
        with pytest.raises(UserError, match=rf"pip install 'outrider\[{package}\]'"):
            open_trackers([package], tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_holds_each_step_once_also_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.summary.writer import event_file_writer

    # TensorBoard reads files in the order of their names: second, host, process, count. Sessions of one second and one
    # process, which only a test has, stand in that order as long as the count has one digit.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))

    # killed after step 3, before the first checkpoint; again after 6, then resumed from the checkpoint of 4
    for session, (start, end) in enumerate([(0, 3), (0, 6), (4, 8)], start=1):
        (tracker,) = open_trackers(["tensorboard"], tmp_path, {}, start)
        for step in range(start + 1, end + 1):
            tracker.log(step, {"reward": step + session / 100, "bad": math.nan})
        tracker.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {e.step: round(e.value, 2) for e in events.Scalars("reward")} == {
        **{s: s + 0.02 for s in range(1, 5)},
        **{s: s + 0.03 for s in range(5, 9)},
    }
    assert len(events.Scalars("reward")) == 8


def test_a_disk_that_refuses_tensorboard_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file where the folder should be")
    with pytest.raises(UserError, match=f"^cannot write tensorboard in {tmp_path}: .*; everything"):
        open_trackers(["tensorboard"], tmp_path, {})
