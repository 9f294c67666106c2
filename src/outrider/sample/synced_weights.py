"""The folder for weight syncs to engines that do not share memory with the learner."""

from __future__ import annotations

import fcntl
import glob
import os
import platform
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from outrider.errors import UserError

OnMain = Callable[[Callable[[], Any]], Any]
"""Runs a function on one process and broadcasts the result."""

_PREFIX, _LOCK = "outrider-weights-", "lock"
MERGED = "merged weights are sent in each step"


class SyncedWeights:
    """A new folder for each weight version, the same on every rank; the previous one is removed.

    A killed run leaves its last folder behind. The next run on the same machine with the same parent removes it, since
    no process holds its lock. Other machines may share the parent, and some file systems do not share locks, so each
    machine only checks its own folders.

    Args:
        parent: parent folder; None: this machine's temporary folder.

    Attributes:
        notices: messages about removed folders.

    Raises:
        UserError: the parent does not exist.
    """

    def __init__(self, parent: str | None, on_main: OnMain) -> None:
        if parent is not None and not Path(parent).is_dir():
            raise UserError(f"engine.sampler.vllm.folder: {parent} is no folder")
        self._parent, self._on_main = Path(parent or tempfile.gettempdir()), on_main
        self._folder: Path | None = None
        self._lock: IO[bytes] | None = None  # of rank 0
        swept: list[Path] = on_main(lambda: _sweep(self._parent))
        self.notices = [f"removed {folder}, which a killed run had left" for folder in swept]

    @property
    def given(self) -> Path:
        """The folder of the last sync."""
        assert self._folder is not None
        return self._folder

    def write(self, export: Callable[[Path], None]) -> Path:
        """A new folder with the files of ``export``, which every rank calls; all readers must be done with the previous
        one.

        Raises:
            UserError: the folder is not writable.
        """
        before = self._folder
        folder: Path = self._on_main(self._make)
        self._folder = folder
        _remove(before)
        export(folder)
        self._on_main(lambda: _let_read(folder))  # and no rank goes on before all is there
        return folder

    def _make(self) -> Path:
        folder = self._parent / f"{_prefix()}{uuid.uuid4().hex}"
        try:
            folder.mkdir()  # as the umask has it: a server may be another user's
            self._lock = (folder / _LOCK).open("wb")  # the one before is closed, and its folder removed
        except OSError as error:
            raise UserError(
                f"engine.sampler.vllm.folder: weights cannot be written to {self._parent} ({error.strerror})"
            ) from error
        self._lock.write(f"{os.getpid()} {' '.join(sys.argv)}\n".encode())  # names the owner for a person who looks
        self._lock.flush()
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: whether it is in use is unknown, so it is kept
            (folder / _LOCK).unlink()
        return folder

    def remove(self) -> None:
        """Remove the folder of the last sync."""
        _remove(self._folder)
        self._folder = None


def _prefix() -> str:
    """The name prefix of this machine's folders."""
    return f"{_PREFIX}{platform.node()}-"


def _sweep(parent: Path) -> list[Path]:
    """Remove folders of killed runs, and return them."""
    gone = []
    for lock in sorted(parent.glob(f"{glob.escape(_prefix())}*/{_LOCK}")):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:  # a run holds it, or it is another user's
            continue
        gone.append(lock.parent)
    return gone


def _let_read(folder: Path) -> None:
    """Give files the folder's permissions, since safetensors makes them readable only for the owner."""
    for file in folder.iterdir():
        file.chmod(stat.S_IMODE(folder.stat().st_mode) & 0o666)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)  # another rank may have removed it
