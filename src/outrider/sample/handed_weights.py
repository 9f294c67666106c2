"""The folder through which weights reach an engine that does not share them."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from outrider.errors import UserError

OnMain = Callable[[Callable[[], Any]], Any]
"""Calls a function on one process of a run and gives its result to all."""

_PREFIX, _LOCK = "outrider-weights-", "lock"
MERGED = "the whole weights are handed over in each step, the adapter added"


class HandedWeights:
    """A new folder for each version of the weights, the same on every rank; the one before is removed.

    A killed run leaves its last one behind. The next run that uses the same place removes it, which it may do because
    nobody holds the lock in it any more.

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

    def renew(self) -> Path:
        """An empty folder; whoever has to read the one before has read it."""
        before = self._folder
        self._folder = self._on_main(self._make)
        _remove(before)
        return self._folder

    def _make(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
        self._lock = (folder / _LOCK).open("wb")  # the one before is closed, and its folder removed
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return folder

    def complete(self) -> None:
        """Wait on every rank until the first one has written into the folder."""
        self._on_main(lambda: None)

    def remove(self) -> None:
        """Remove the last one."""
        _remove(self._folder)
        self._folder = None


def _sweep(parent: Path) -> list[Path]:
    """Remove the folders whose runs are gone, and return them."""
    gone = []
    for lock in sorted(parent.glob(f"{_PREFIX}*/{_LOCK}")):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:  # a run holds it, or it is another user's
            continue
        gone.append(lock.parent)
    return gone


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)  # another rank may have removed it
