"""What a run stands on: the commit of the package, and what has changed since the run began."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.runs.environment import environment
from outrider.runs.folder import RunFolder
from runs import CONFIG


def test_the_commit_is_that_of_the_package_and_not_of_the_folder_one_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = environment()["git"]
    monkeypatch.chdir(tmp_path)
    assert environment()["git"] == before
    assert before is None or len(before.removesuffix("-dirty")) == 40


def test_opening_tells_what_changed_in_the_environment(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", CONFIG).close()
    with RunFolder.open(tmp_path / "run") as run:
        assert run.notices == []
    file = tmp_path / "run" / "environment.json"
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | {"versions": data["versions"] | {"torch": "1.0"}}))
    with RunFolder.open(tmp_path / "run") as run:
        (notice,) = run.notices
    assert notice.startswith("torch was 1.0 when the run began and is ")
