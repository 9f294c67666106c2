"""Creates folders for weight syncs to engines that do not share memory with the learner."""

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
"""Function that runs another function on rank 0 and broadcasts its result."""

_PREFIX, _LOCK = "outrider-weights-", "lock"
MERGED = "merged weights are sent in each step"


class SyncedWeights:
    """Creates one folder per weight version, and removes the folder of the previous version. All ranks share these
    folders.

    A killed run leaves its last folder behind. This folder is removed by the next run that uses the same machine and
    parent folder, since no process holds the folder's lock. Each machine checks only its own folders, since other
    machines may share the parent folder, and some file systems do not share locks between machines.

    Args:
        parent: parent folder of these folders, or None for this machine's temporary folder.

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
        self._lock: IO[bytes] | None = None  # only on rank 0
        swept: list[Path] = on_main(lambda: _sweep(self._parent))
        self.notices = [f"removed {folder}, which a killed run had left" for folder in swept]

    @property
    def given(self) -> Path:
        """The folder of the last weight sync."""
        assert self._folder is not None
        return self._folder

    def write(self, export: Callable[[Path], None]) -> Path:
        """Create a folder, call ``export`` with this folder on every rank, and return the folder.

        The previous folder is removed, so its readers must have finished.

        Raises:
            UserError: the folder is not writable.
        """
        before = self._folder
        folder: Path = self._on_main(self._make)
        self._folder = folder
        _remove(before)
        export(folder)
        self._on_main(lambda: _let_read(folder))  # also a barrier: no rank continues before all files exist
        return folder

    def _make(self) -> Path:
        folder = self._parent / f"{_prefix()}{uuid.uuid4().hex}"
        try:
            folder.mkdir()  # default permissions: a server may belong to another user
            self._lock = (folder / _LOCK).open("wb")  # closes the previous lock file, whose folder is removed
        except OSError as error:
            raise UserError(
                f"engine.sampler.vllm.folder: weights cannot be written to {self._parent} ({error.strerror})"
            ) from error
        self._lock.write(f"{os.getpid()} {' '.join(sys.argv)}\n".encode())  # tells people which process owns the folder
        self._lock.flush()
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError:  # no locks on this file system: without the file, other runs never remove the folder
            (folder / _LOCK).unlink()
        return folder

    def remove(self) -> None:
        """Remove the folder of the last sync."""
        _remove(self._folder)
        self._folder = None


def _prefix() -> str:
    """Return the prefix of the names of this machine's folders."""
    return f"{_PREFIX}{platform.node()}-"


def _sweep(parent: Path) -> list[Path]:
    """Remove folders of killed runs, and return them."""
    gone = []
    for lock in sorted(parent.glob(f"{glob.escape(_prefix())}*/{_LOCK}")):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:  # a run holds the lock, or the folder belongs to another user
            continue
        gone.append(lock.parent)
    return gone


def _let_read(folder: Path) -> None:
    """Give the files the folder's read and write permissions, since safetensors makes files readable only by their
    owner."""
    for file in folder.iterdir():
        file.chmod(stat.S_IMODE(folder.stat().st_mode) & 0o666)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)  # another rank may have removed it
