"""The folder through which weights reach an engine that does not share them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.errors import UserError

OnMain = Callable[[Callable[[], Any]], Any]
"""Calls a function on one process of a run and gives its result to all."""

MERGED = "the whole weights are handed over in each step, the adapter added"


class HandedWeights:
    """A new folder for each version of the weights, the same on every rank; the one before is removed.

    Args:
        parent: where it is made; None: this machine's temporary files.

    Raises:
        UserError: there is no such place.
    """

    def __init__(self, parent: str | None, on_main: OnMain) -> None:
        if parent is not None and not Path(parent).is_dir():
            raise UserError(f"engine.sampler.vllm.folder: {parent} is no folder")
        self._parent, self._on_main = parent, on_main
        self._folder: Path | None = None

    @property
    def given(self) -> Path:
        """The last one."""
        assert self._folder is not None
        return self._folder

    def renew(self) -> Path:
        """An empty folder; whoever has to read the one before has read it."""
        before = self._folder
        self._folder = Path(self._on_main(lambda: tempfile.mkdtemp(prefix="outrider-weights-", dir=self._parent)))
        _remove(before)
        return self._folder

    def complete(self) -> None:
        """Wait on every rank until the first one has written into the folder."""
        self._on_main(lambda: None)

    def remove(self) -> None:
        """Remove the last one."""
        _remove(self._folder)
        self._folder = None


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)  # another rank may have removed it
