"""Files that a full disk leaves as they were, and names that are never taken twice."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from outrider.errors import UserError
from outrider.record.disk import move, sweep, write_atomically


def test_moving_never_overwrites(tmp_path: Path) -> None:
    for content in "abc":
        (tmp_path / "file").write_text(content)
        move(tmp_path / "file", tmp_path / "aside")
    assert {p.name: p.read_text() for p in (tmp_path / "aside").iterdir()} == {
        "file": "a",
        "file.2": "b",
        "file.3": "c",
    }


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is always full")
def test_a_device_without_space_is_reported_by_the_real_write(tmp_path: Path) -> None:
    (tmp_path / ".file.tmp").symlink_to("/dev/full")
    with pytest.raises(UserError, match="No space left on device"):
        write_atomically(tmp_path / "file", b"x" * 100_000)


def test_a_refused_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", b"before")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=rf"^cannot write file in {tmp_path}: No space left on device; everything"):
        write_atomically(tmp_path / "file", b"after")
    assert (tmp_path / "file").read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_truncated_writes_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in (".b.tmp", ".a.tmp", "a", "a.tmp", ".lock"):
        (tmp_path / name).write_text("")
    assert [p.name for p in sweep(tmp_path)] == [".a.tmp", ".b.tmp"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "a", "a.tmp"]
    assert sweep(tmp_path / "nowhere") == []
