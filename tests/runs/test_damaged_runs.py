"""What a kill leaves of a beginning, and records that were damaged behind a run's back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from outrider.cli import main
from outrider.record.disk import write_atomically
from outrider.runs import folder as folder_module
from outrider.runs.folder import RunFolder

FEW = ["train={problems: 2, steps: 3, tokens: null, ranks: 1, trackers: [], save_every: 1}"]
FEW += ["evaluate={before: false, after: false, problems: 2}", "explore.0.n=2", "sample.max_tokens=12"]


class Killed(BaseException):
    """Ends a process at a chosen moment."""


def killed_at(moment: int, leaves_a_part: bool) -> Callable[..., None]:
    """A write that is killed at its n-th call: before the rename, with or without the temporary file."""
    calls = 0

    def write(path: Path, data: Any, wait: bool = True) -> None:
        nonlocal calls
        calls += 1
        if calls <= moment:
            write_atomically(path, data, wait)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if leaves_a_part:
            path.with_name(f".{path.name}.tmp").write_bytes(bytes(data)[:5])
        raise Killed

    return write


@pytest.mark.parametrize("leaves_a_part", [False, True])
@pytest.mark.parametrize("moment", range(4))
def test_a_run_begins_anew_over_what_a_kill_left_of_its_beginning(
    moment: int, leaves_a_part: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(folder_module, "write_atomically", killed_at(moment, leaves_a_part))
        with pytest.raises(Killed):
            RunFolder.create(run, {})
    again = shutil.copytree(run, tmp_path / "again")
    assert not (run / "config.yaml").exists()
    RunFolder.create(run, {"a": 1}).close()
    assert not [path for path in run.iterdir() if path.name.endswith(".tmp")]
    if moment or leaves_a_part:
        assert RunFolder(again).was_begun


def test_resume_begins_anew_where_a_kill_came_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".metrics.jsonl.tmp").write_bytes(b"")
    assert main(["train", "grpo", *FEW, "train.steps=1", "--out", str(run), "--resume"]) == 0
    assert "the run was stopped before its first step: starting again" in capsys.readouterr().err


def test_resume_begins_anew_where_only_the_lock_was_left(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").write_bytes(b"")
    assert main(["train", "grpo", *FEW, "train.steps=1", "--out", str(run), "--resume"]) == 0


@pytest.mark.parametrize("name", ["notes.txt", "metrics.jsonl", "environment.json"])
def test_what_somebody_else_left_is_not_written_over(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"step": 1}\n')
    assert main(["train", "grpo", *FEW, "--out", str(tmp_path)]) == 2
    assert (tmp_path / name).read_text() == '{"step": 1}\n'


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    assert main(["train", "grpo", *FEW, "train.keep=2", "--out", str(run)]) == 0
    return run


def emptied(run: Path, name: str) -> None:
    (run / name).write_bytes(b"")


def removed(run: Path, name: str) -> None:
    (run / name).unlink()


def flipped(run: Path, name: str) -> None:
    """The last byte of the first column's data changed, as a bad disk does. Few bytes of a footer carry no meaning."""
    column = pq.read_metadata(run / name).row_group(0).column(0)
    data = bytearray((run / name).read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 0xFF
    (run / name).write_bytes(data)


def without_step_3(run: Path, name: str) -> None:
    lines = (run / name).read_text().splitlines(keepends=True)
    (run / name).write_text("".join(lines[:2]))


@pytest.mark.parametrize(
    ("damage", "name", "says"),
    [
        (emptied, "metrics.jsonl", "metrics.jsonl lacks step 1"),
        (removed, "metrics.jsonl", "metrics.jsonl lacks step 1"),
        (removed, "rollouts/train-00000002.parquet", "rollouts/ lacks the file of step 2"),
        (emptied, "rollouts/train-00000001.parquet", "train-00000001.parquet"),
        (flipped, "rollouts/train-00000001.parquet", "train-00000001.parquet"),
    ],
)
def test_a_gap_in_the_record_before_every_checkpoint_is_refused_and_said(
    damage: Callable[[Path, str], None], name: str, says: str, finished: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run = shutil.copytree(finished, tmp_path / "run")
    damage(run, name)
    again = ["train", "grpo", *FEW, "train.keep=2", "--out", str(run), "--resume"]
    assert main(again) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "--force" in said
    assert main([*again, "train.steps=4", "--force"]) == 0
    assert says in (run / "notices.txt").read_text()


def test_a_gap_with_every_earlier_checkpoint_damaged_moves_nothing(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    without_step_3(run, "metrics.jsonl")
    for file in (run / "checkpoints" / "step-00000002").glob("*.safetensors"):
        file.write_bytes(b"")
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    again = ["train", "grpo", *FEW, "train.keep=2", "--out", str(run), "--resume"]
    assert main(again) == 2
    assert "no checkpoint is from before step 3" in capsys.readouterr().err
    assert sorted(path.relative_to(run) for path in run.rglob("*")) == before
    assert main([*again, "train.steps=4", "--force"]) == 0
    assert "metrics.jsonl lacks step 3" in (run / "notices.txt").read_text()


def test_a_run_goes_on_from_where_the_record_is_whole(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    without_step_3(run, "metrics.jsonl")
    assert main(["train", "grpo", *FEW, "train.keep=2", "--out", str(run), "--resume"]) == 0
    notices = (run / "notices.txt").read_text()
    assert "metrics.jsonl lacks step 3" in notices
    assert "going on after step 2" in notices
    assert (run / "metrics.jsonl").read_bytes() == (finished / "metrics.jsonl").read_bytes()


def test_an_empty_configuration_is_said_and_written_anew(finished: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    emptied(run, "config.yaml")
    words = ["train", "grpo", *FEW, "train.keep=2", "--out", str(run), "--resume"]
    assert main([*words, "learn.lr=1e-3"]) == 2, "the checkpoint knows what the run was"
    assert main(words) == 0
    assert "config.yaml was empty" in (run / "notices.txt").read_text()
    assert (run / "config.yaml").read_bytes() == (finished / "config.yaml").read_bytes()


NAMES = {"long": "x" * 300, "not UTF-8": "x\udcff"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("words", [
    ["train", "grpo", "--out", "{}"], ["train", "{}"], ["report", "{}"], ["evaluate", "{}", "--task", "countdown"],
    ["validate", "{}"], ["show", "{}"], ["compare", "{}", "{}"], ["score", "{}", "--task", "countdown"],
    ["bench", "grpo", "--steps", "1", "--out", "{}"], ["train", "grpo", "model={}"],
])  # fmt: skip
def test_names_that_no_file_can_have_are_one_sentence(
    name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(NAMES[name]) for word in words]) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if line.startswith("outrider: ")]) == 1


def test_a_model_in_the_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from outrider.model.places import local_config, model_folder

    shutil.copytree(model_folder("base:countdown"), tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    config = local_config("~/mine")
    assert config is not None
    assert config["num_hidden_layers"] == 3
