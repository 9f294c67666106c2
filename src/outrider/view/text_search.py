"""Searches rollouts by text. Since texts are on disk, a background thread reads them, a few files at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import duckdb

AT_A_TIME = 32  # number of files per query
PATIENCE = 0.3  # maximum seconds that a page waits for the search; it then shows the results so far


class Searched(NamedTuple):
    """The progress of a search: the number of files searched so far, and the number of files in total."""

    done: int
    files: int

    @property
    def whole(self) -> bool:
        return self.done == self.files


class TextSearch:
    """A text search that runs in the background until all files are read or the search is cancelled.

    Args:
        table: name of an existing table with the columns file and row, to which matches are added.
        files: files to search, in order.
        find: function that adds the matches in some files to the table.
    """

    def __init__(self, table: str, files: Sequence[str], find: Callable[[Sequence[str]], object]) -> None:
        self.table, self.used = table, time.monotonic()
        self._files, self._find = list(files), find
        self._done = 0
        self._cancelled = threading.Event()
        self._failed: duckdb.Error | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def searched(self, patience: float | None = PATIENCE) -> Searched:
        """Wait for the search for at most ``patience`` seconds (without a limit if None), and return the progress.

        Raises:
            duckdb.Error: a file has damaged texts or was removed.
        """
        self._thread.join(patience)
        self.used = time.monotonic()
        if self._failed is not None:
            raise self._failed
        return Searched(self._done, len(self._files))

    def cancel(self) -> None:
        """Stop the search; its table may be dropped afterwards."""
        self._cancelled.set()
        self._thread.join()

    def _run(self) -> None:
        for begin in range(0, len(self._files), AT_A_TIME):
            some = self._files[begin : begin + AT_A_TIME]
            if self._cancelled.is_set():
                return
            try:
                self._find(some)
            except duckdb.Error as error:
                self._failed = error
                return
            self._done += len(some)
