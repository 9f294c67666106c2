"""The folder through which weights reach an engine that does not share them."""

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
"""Calls a function on one process of a run and gives its result to all."""

_PREFIX, _LOCK = "outrider-weights-", "lock"
MERGED = "merged weights are sent in each step"


class SyncedWeights:
    """A new folder for each version of the weights, the same on every rank; the one before is removed.

    A killed run leaves its last one behind. The next run of the same machine that uses the same place removes it, which
    it may do because no process holds the lock in it any more. Other machines may share the place, and some file
    systems tell none of another's lock, so each machine looks at its own alone.

    Args:
        parent: where it is made; None: this machine's temporary files.

    Attributes:
        notices: what was removed.

    Raises:
        UserError: there is no such place.
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
        """The last one."""
        assert self._folder is not None
        return self._folder

    def write(self, export: Callable[[Path], None]) -> Path:
        """A new folder with what ``export`` writes, which every rank calls; every reader of the previous one has
        read it.

        Raises:
            UserError: nothing can be written there.
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
        """Remove the last one."""
        _remove(self._folder)
        self._folder = None


def _prefix() -> str:
    """What the folders that this machine makes begin with."""
    return f"{_PREFIX}{platform.node()}-"


def _sweep(parent: Path) -> list[Path]:
    """Remove the folders whose runs are gone, and return them."""
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
    """Files are for whom the folder is for: safetensors makes them for their owner alone."""
    for file in folder.iterdir():
        file.chmod(stat.S_IMODE(folder.stat().st_mode) & 0o666)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)  # another rank may have removed it
