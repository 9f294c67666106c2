"""Metrics of older versions have their present names, wherever a run's lines are read."""

from __future__ import annotations

import json
from pathlib import Path

import outrider
from outrider.runs.folder import RunFolder


def test_metrics_of_older_versions_have_their_present_names(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {"name": "old"})
    folder.append_metrics(1, {"tokens": 8.0, "sync/asked_again": 3.0, "unused/sift:_not_judged": 2.0})
    folder.append_metrics(2, {"tokens": 9.0, "sync/retries": 1.0, "spent/unused/keep:_not_judged": 5.0})
    folder.close()
    written = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert "sync/asked_again" in written[0], "files keep what they hold"
    first, second = RunFolder(tmp_path / "run").metrics()
    assert first == {"step": 1, "tokens": 8.0, "sync/retries": 3.0, "unused/sift:_unscorable": 2.0}
    assert second == {"step": 2, "tokens": 9.0, "sync/retries": 1.0, "spent/unused/keep:_unscorable": 5.0}
    frame = outrider.load_run(tmp_path / "run").metrics
    assert frame["sync/retries"].tolist() == [3.0, 1.0]
