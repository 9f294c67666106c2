"""Checkpoints: whole or not there, the last good one kept, damage named, a full disk survived."""

from __future__ import annotations

import errno
import shutil
import signal
from pathlib import Path

import pytest

from outrider.errors import UserError
from outrider.record import disk
from outrider.runs.checkpoint import Checkpoints


def save(checkpoints: Checkpoints, step: int, state: dict[str, object] | None = None) -> None:
    def write(folder: Path) -> None:
        (folder / "weights.safetensors").write_bytes(bytes([step]) * 24)
        (folder / "optimizer.pt").write_bytes(bytes([step]) * 12)

    checkpoints.save(step, state or {"counters": {"step": step}}, write)


def test_round_trip_and_keeping_the_newest(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (0, 3, 6):
        save(checkpoints, step)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000003", "step-00000006"]
    loaded, troubles = checkpoints.load_last()
    assert troubles == []
    assert loaded.step == 6
    assert loaded.state == {"counters": {"step": 6}}
    assert (loaded.folder / "weights.safetensors").read_bytes() == bytes([6]) * 24


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.pt", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_any_damage_is_seen_and_the_one_before_is_taken(name: str, damage: str, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (3, 6):
        save(checkpoints, step)
    file = tmp_path / "step-00000006" / name
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    loaded, troubles = checkpoints.load_last()
    assert loaded.step == 3
    assert len(troubles) == 1
    assert "step-00000006" in troubles[0]
    save(checkpoints, 6)  # the run comes by again: the damaged one is kept aside, not overwritten
    assert checkpoints.load_last()[0].step == 6
    assert (tmp_path / "superseded" / "step-00000006").is_dir()


def test_nothing_to_resume_from(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no checkpoint"):
        Checkpoints(tmp_path / "none", keep=2).load_last()
    save(Checkpoints(tmp_path, keep=2), 1)
    (tmp_path / "step-00000001" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(UserError, match=r"no checkpoint can be loaded: .*optimizer\.pt is damaged"):
        Checkpoints(tmp_path, keep=2).load_last()


def test_a_interrupted_save_is_no_checkpoint(tmp_path: Path) -> None:
    """What a kill leaves: a part folder without its last files."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 3)
    part = tmp_path / ".step-00000006.part"
    shutil.copytree(tmp_path / "step-00000003", part)
    (part / "manifest.json").unlink()
    assert checkpoints.load_last()[0].step == 3
    save(checkpoints, 6)
    assert checkpoints.load_last()[0].step == 6
    assert not part.exists()


def test_a_full_disk_is_one_sentence_and_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    save(checkpoints, 3)
    real = disk.os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device") as caught:
        save(checkpoints, 6)
    assert str(tmp_path) in str(caught.value)
    monkeypatch.setattr(disk.os, "fsync", real)
    assert checkpoints.load_last()[0].step == 3


def test_ctrl_c_during_a_save_is_heard_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = disk.os.fsync

    def interrupted(descriptor: int) -> None:
        signal.raise_signal(signal.SIGINT)
        real(descriptor)

    monkeypatch.setattr(disk.os, "fsync", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell put into the background
    try:
        with pytest.raises(KeyboardInterrupt):
            save(Checkpoints(tmp_path, keep=1), 6)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert Checkpoints(tmp_path, keep=1).load_last()[0].step == 6


def test_another_schema_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    save(checkpoints, 1, {"schema_version": 99})
    with pytest.raises(UserError, match="schema version 99"):
        checkpoints.load_last()
