"""Detects the kind of a file from its first bytes and its first record, and lists the files of a folder in natural
order (step_2 before step_10).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from outrider.errors import UserError
from outrider.importers.jsonobject import elements, members
from outrider.importers.lines import opened

LOOK = 1 << 26  # maximum characters of the first record that are read to find its keys
MANY_KEYS = 200


class Head(NamedTuple):
    """The kind of a file's content and the names of its columns, keys or archived files, detected from the file's
    beginning.

    Attributes:
        kind: the kind of content. ``json`` is an object, JSON lines or a list of objects. ``text`` may be CSV.
            ``other`` is an unknown kind or a damaged file.
        names: columns of a Parquet or CSV file, keys of the first JSON object, or file names in a ZIP.
        first: the first JSON object; if it is damaged or very large, only its first members.
    """

    kind: Literal["parquet", "zip", "json", "text", "empty", "other"]
    names: frozenset[str]
    first: Mapping[str, Any]


def head_of(path: Path) -> Head:
    """Read the head of a file.

    Raises:
        UserError: the file cannot be opened, or is compressed and damaged.
    """
    with opened(path) as file:
        start = file.read(1 << 16)
    if start.startswith(b"PAR1"):
        return _parquet(path)
    if start.startswith(b"PK"):
        return _zip(path)
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return _head("empty")
    if text.startswith(b"{"):
        return _json(path)
    if text.startswith(b"["):
        return _list(path)
    return _text(start)


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or all files below a folder except hidden files. Numbers in names are sorted as numbers.

    Raises:
        UserError: ``path`` does not exist.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"there is nothing at {path}.")
    results = [file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path))]
    return sorted(results, key=lambda file: natural(file.relative_to(path).as_posix()))


def natural(name: str) -> list[tuple[int, int | str]]:
    """Return a sort key that puts step_2 before step_10.

    >>> sorted(["10.jsonl", "2.jsonl"], key=natural)
    ['2.jsonl', '10.jsonl']
    """
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part]


def _head(kind: Any, names: Any = (), first: Mapping[str, Any] | None = None) -> Head:
    return Head(kind, frozenset(names), first or {})


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _parquet(path: Path) -> Head:
    try:
        return _head("parquet", pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return _head("other")


def _zip(path: Path) -> Head:
    try:
        with ZipFile(path) as archive:
            return _head("zip", archive.namelist())
    except (BadZipFile, OSError):
        return _head("other")


def _json(path: Path) -> Head:
    first: dict[str, Any] = {}
    try:
        # bytes that are not UTF-8 raise an error later, when the records are read
        with opened(path) as file, TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as text:
            # key by key, since an Inspect log is one object of any size, with its header before its samples
            for key, value in members(text, each="samples", limit=LOOK):
                first[key] = value
                if key == "samples" or len(first) == MANY_KEYS:
                    break
    except (ValueError, RecursionError):
        pass  # truncated or not JSON: the keys read so far are enough
    return _head("json", first, first) if first else _head("other")


def _list(path: Path) -> Head:
    try:
        with opened(path) as file, TextIOWrapper(file, encoding="utf-8-sig", errors="replace") as text:
            first = next(elements(text, limit=LOOK), None)
    except (ValueError, RecursionError):
        return _head("other")
    if first is None:
        return _head("empty")
    return _head("json", first, first) if isinstance(first, dict) and first else _head("other")


def _text(start: bytes) -> Head:
    line = start.split(b"\n", 1)[0]
    try:
        names = next(csv.reader([line.decode("utf-8-sig")]), [])
    except (UnicodeDecodeError, csv.Error):
        return _head("other")
    return _head("text", names) if len(names) > 1 and b"\0" not in start else _head("other")
