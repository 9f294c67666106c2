"""An opened run. An in-memory table holds all rollouts without their texts, and is updated when the run has new
files."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from outrider.importers.plain import PLAIN
from outrider.report.data import RunData
from outrider.report.opened import open_any
from outrider.report.run import is_run, quoted, reopened, rows_of_files
from outrider.view.text_search import TextSearch

KEPT_SEARCHES = 16
IN_USE = 60.0  # seconds for which search results are kept after a page requested them
LOOK = 2.0  # minimum seconds between two checks of the folder for changes
TEXTS = ("text", "prompt", "answer", "detail")
"""Columns with texts, which stay on disk."""
NUMBERS = tuple(name for name in PLAIN.names if name not in TEXTS)

Row = dict[str, Any]
T = TypeVar("T")


class OpenedRun:
    """A run folder, or another framework's rollout files (a dump), that the viewer's pages can query.

    The table ``seen`` has one row per rollout, with the columns of :data:`outrider.importers.plain.PLAIN` except texts.
    The columns ``file`` and ``row`` give the rollout's location, which the relation ``texts`` uses to find the texts. A
    rollout file is read again only if it changes. If a file is removed, for example because a resumed run moved a
    step's files away, the file's rows are deleted.

    Args:
        path: run folder, or rollout files of another framework.
        columns: for another framework's files, the record field for each column; see :func:`outrider.importers.read`.

    Raises:
        UserError: ``path`` does not exist, or contains no readable run or rollouts.
    """

    def __init__(self, path: Path, columns: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._follows = path.exists() and is_run(path)
        self.data: RunData = open_any(path, columns)
        self._seen_at = 0.0
        self._changes = 0
        self._stamps: dict[str, tuple[int, int]] = {}
        self._searches: OrderedDict[tuple[str, tuple[str, ...], str], TextSearch] = OrderedDict()
        self._numbers = count()
        self._kept: dict[str, tuple[str, Any]] = {}
        self._making: dict[str, threading.RLock] = {}
        self._empty_before = False
        self._known = self._state()
        self._create()
        self._take_new()

    @property
    def name(self) -> str:
        return self.data.name

    @property
    def has_tokens(self) -> bool:
        """Whether the rollouts' tokens are on disk, and not only the texts."""
        return self.data.has("traces")

    @property
    def version(self) -> str:
        """A string that changes when the run has new rollouts, metrics or evaluations."""
        steps = len(self.data.metrics.get("step", ()))
        return f"{self._changes}-{self.count()}-{steps}-{len(self.data.evaluations)}"

    def count(self) -> int:
        """Return the number of rollouts in all splits."""
        return int(self.rows("SELECT count(*) AS n FROM seen")[0]["n"])

    def refresh(self) -> None:
        """Read new files of the run, at most once every ``LOOK`` seconds."""
        with self._lock:
            if not self._follows or time.monotonic() - self._seen_at < LOOK:
                return
            self._seen_at = time.monotonic()
            state = self._state()
            if state != self._known:
                self.data = reopened(self.data, self.path)
                self._changes += 1
                self._take_new()
                self._known = state

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return one mapping per row of a query's result, with None for null. Any thread may call this method."""
        cursor = self.data.db.cursor()
        try:
            cursor.execute(sql, list(values))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        finally:
            cursor.close()

    @contextmanager
    def snapshot(self) -> Iterator[RunData]:
        """Context manager that yields the run in its current state. Its relation ``numbers`` is a table in memory with
        all columns except texts."""
        cursor = self.data.db.cursor()
        try:
            with self._lock:
                cursor.execute(self._view_of_rollouts())
                cursor.begin()
                cursor.execute(
                    "SELECT file FROM seen LIMIT 1"
                ).fetchall()  # the transaction sees the state at the time of this first query
            yield replace(self.data, db=cursor, numbers="seen")
        finally:
            cursor.close()

    def _view_of_rollouts(self) -> str:
        """Return SQL that creates the view ``rollouts`` for a single cursor. The view leaves out files that are not in
        the in-memory table."""
        if not self.data.has("files"):
            texts = ", ".join(f"texts.{name}" if name in TEXTS else f"seen.{name}" for name in PLAIN.names)
            return f"CREATE TEMP VIEW rollouts AS SELECT {texts} FROM seen JOIN texts USING (file, row)"
        there = {row["file"] for row in self.rows("SELECT DISTINCT file FROM seen")}
        out = [
            row["filename"] for row in self.rows("SELECT DISTINCT filename FROM files") if row["filename"] not in there
        ]
        which = f"filename NOT IN ({quoted(out)})" if out else "true"
        return f"CREATE TEMP VIEW rollouts AS SELECT {', '.join(PLAIN.names)} FROM rollouts_on_disk WHERE {which}"

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of ``make``, which is called only once for each state of the run."""
        with self._lock:
            making = self._making.setdefault(name, threading.RLock())
        with making:  # a lock per name, so that a slow list does not block other pages
            version = self.version
            if name not in self._kept or self._kept[name][0] != version:
                self._kept[name] = (version, make())
            found: T = self._kept[name][1]
            return found

    def search(self, text: str, files: Sequence[str]) -> TextSearch:
        """Search ``files`` for rollouts that contain ``text``. The search runs in the background. If the same search
        was started before, return that one.

        The last few searches are kept, because a page queries counts and rows separately, and a user may open the next
        page.
        """
        key = (text, tuple(files), self.version)
        with self._lock:
            if key not in self._searches:
                table = f"found_{next(self._numbers)}"
                self.rows(f"CREATE TABLE {table} (file VARCHAR, row BIGINT)")
                self._searches[key] = TextSearch(table, files, partial(self._find, table, text))
            self._searches.move_to_end(key)
            found, now = self._searches[key], time.monotonic()
            found.used = now
            while len(self._searches) > KEPT_SEARCHES and now - next(iter(self._searches.values())).used > IN_USE:
                old = self._searches.popitem(last=False)[1]
                old.cancel()
                self.rows(f"DROP TABLE {old.table}")
            return found

    def _find(self, table: str, text: str, files: Sequence[str]) -> None:
        source = "SELECT file, row, text FROM texts"
        if self.data.has("files"):
            of_files = rows_of_files(self.data, files, ["text"])
            source = f"SELECT filename AS file, file_row_number AS row, text FROM ({of_files})"
        self.rows(f"INSERT INTO {table} SELECT file, row FROM ({source}) WHERE contains(text, ?)", [text])

    def close(self) -> None:
        for search in self._searches.values():
            search.cancel()
        self.data.db.close()

    def _state(self) -> tuple[object, ...]:
        """Return a value that changes when files or metrics change. With a thousand files, this takes a millisecond."""
        if not self._follows:
            return ()
        folders = [self.path / "rollouts", self.path / "evaluations"]
        names = [frozenset(map(_stamp, os.scandir(folder))) for folder in folders if folder.is_dir()]
        metrics = self.path / "metrics.jsonl"
        return (*names, metrics.stat().st_size if metrics.is_file() else 0)

    def _create(self) -> None:
        types = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE"}
        columns = ", ".join(f"{name} {types[str(PLAIN.field(name).type)]}" for name in NUMBERS)
        self.data.db.execute(f"CREATE TABLE seen (file VARCHAR, row BIGINT, {columns})")

    def _take_new(self) -> None:
        db, names, texts = self.data.db, ", ".join(NUMBERS), ", ".join(TEXTS)
        if not self.data.has("files"):  # rollouts in memory, which other cursors cannot see, or none yet
            db.execute("DELETE FROM seen")  # all files of a run may have been moved away
            db.execute("DROP VIEW IF EXISTS texts" if not self._empty_before else "SELECT 1")
            db.execute("CREATE OR REPLACE TEMP TABLE dump AS SELECT row_number() OVER () - 1 AS row, * FROM rollouts")
            db.execute(f"CREATE OR REPLACE TABLE texts AS SELECT '' AS file, row, {texts} FROM dump")
            db.execute(f"INSERT INTO seen SELECT '', row, {names} FROM dump")
            db.execute("DROP TABLE dump")
            self._empty_before = True
            return
        if self._empty_before:
            db.execute("DROP TABLE IF EXISTS texts")
            self._empty_before = False
        db.execute(
            f"CREATE OR REPLACE VIEW texts AS SELECT filename AS file, file_row_number AS row, {texts} "
            "FROM rollouts_on_disk"
        )
        there = {row[0] for row in db.execute("SELECT DISTINCT filename FROM files").fetchall()}
        known = {row[0] for row in db.execute("SELECT DISTINCT file FROM seen").fetchall()}
        stamps = {file: _stamp(Path(file))[1:] for file in there}
        # a resumed run moves old files away and writes new files with the same names
        changed = {file for file in known & there if self._stamps.get(file) != stamps[file]}
        self._stamps = stamps
        known -= changed
        if gone := sorted((known | changed) - (there - changed)):
            db.execute("DELETE FROM seen WHERE file IN (SELECT unnest(?))", [gone])
        new = sorted(there - known)
        take = f"INSERT INTO seen SELECT filename, file_row_number, {names} FROM rollouts_on_disk"
        if not new:
            return
        try:
            db.execute(f"{take} WHERE filename IN (SELECT unnest(?))" if known else take, [new] if known else [])
        except duckdb.Error:  # one file is damaged: read the files one by one
            for file in new:
                self._take_file(f"{take} WHERE filename = ?", file)

    def _take_file(self, take: str, file: str) -> None:
        try:
            self.data.db.execute(take, [file])
        except duckdb.Error as error:
            self.data.notices.append(f"{file} was skipped: it is damaged ({str(error).splitlines()[0][:120]})")


def _stamp(entry: os.DirEntry[str] | Path) -> tuple[str, int, int]:
    """Return a file's name, size and modification time. If the file has just been removed, size and time are 0."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return entry.name, 0, 0
    return entry.name, found.st_size, found.st_mtime_ns
