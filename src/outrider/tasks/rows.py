"""Reads the rows of problem tables. Each row comes with its place in the file, for error messages."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from outrider.errors import UserError
from outrider.record.disk import open_bytes
from outrider.record.table_file import csv_rows, parquet_rows
from outrider.tasks.fields import Fields
from outrider.tasks.saved import saved_rows

_LFS = b"version https://git-lfs.github.com/spec/"
_HUB = r"hf:(?P<name>[^@:]+)(?:@(?P<config>[^:]+))?(?::(?P<split>.+))?"  # compiled when it is first used


class TableRow(NamedTuple):
    """A row and its place in the source, such as ``data/test.jsonl, line 7``."""

    place: str
    fields: Fields


def read_rows(source: str, split: str) -> Iterator[TableRow]:
    """Yield the rows of a table in order.

    Args:
        source: a file whose name ends with one of ``SUFFIXES``, a folder written by ``save_to_disk`` of ``datasets``,
            or ``hf:name[@config][:split]``.
        split: split to read from a folder or hub dataset with several splits, if ``source`` does not name a split.

    Raises:
        UserError: the table does not exist, its format is unknown, or a row cannot be read.
    """
    return (TableRow(place, Fields(fields)) for place, fields in _read(source, split))


def _read(source: str, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if source.startswith("hf:"):
        return _hub_rows(source, split)
    path = Path(source).expanduser()
    if path.is_dir():
        return saved_rows(path, split)
    kind = next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), None)
    if kind is None:
        known = f"files ending in {', '.join(SUFFIXES)}, folders of save_to_disk, and hf:<dataset>"
        raise UserError(f"{source}: not a table; known are {known}")
    if not path.is_file():
        raise UserError(f"{source}: no such file (looked in {path.absolute().parent})")
    _refuse_pointer(source, path)
    return parquet_rows(path) if kind == ".parquet" else _text_rows(path, _READERS[kind.removesuffix(".gz")])


def _refuse_pointer(source: str, path: Path) -> None:
    """Raise an error for a Git LFS pointer, the small text file that a clone without LFS has instead of a data file."""
    try:
        with path.open("rb") as file:
            pointer = file.read(len(_LFS)) == _LFS
    except OSError:
        return  # the reader of the file will report the reason
    if pointer:
        raise UserError(f"{source}: a Git LFS pointer, not the data; `git lfs pull` in its repository fetches the data")


def _text_rows(
    path: Path, read: Callable[[Path, IO[bytes]], Iterator[tuple[str, Any]]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the fields of each row in a file, which may be compressed."""
    place = ""
    try:
        with open_bytes(path) as file:
            for place, value in read(path, file):
                if not isinstance(value, dict):
                    raise UserError(f"{place}: an object with fields is needed, not {type(value).__name__}")
                yield place, value
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read after {place.rpartition(', ')[2] or 'line 0'}: {error}") from error


def _json_lines(path: Path, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the JSON value of each line. The file is UTF-8, and blank lines are skipped."""
    for number, line in enumerate(file, 1):
        if line.strip():
            place = f"{path}, line {number}"
            yield place, _json_value(line, place)


def _json(path: Path, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a JSON array. If the file is not an array, yield one object per line, as in many files named
    .json."""
    start = file.read(1024)
    if not start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        file.seek(0)
        try:
            yield from _json_lines(path, file)
        except UserError as error:
            raise UserError(f"{error}; a .json file is an array of objects, or one object a line") from error
        return
    for number, value in enumerate(_json_value(start + file.read(), str(path)), 1):
        yield f"{path}, row {number}", value


def _json_value(text: bytes, place: str) -> Any:
    try:
        # by default, json would silently use the last of several equal keys
        return json.loads(text.decode("utf-8-sig"), object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:  # ValueError includes invalid UTF-8
        raise UserError(f"{place}: broken JSON: {error}") from error


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"two fields are called {next(name for name in names if names.count(name) > 1)!r}")
    return value


_READERS: dict[str, Callable[[Path, IO[bytes]], Iterator[tuple[str, Any]]]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".csv": csv_rows,
}
SUFFIXES = (*(suffix + packed for suffix in _READERS for packed in ("", ".gz")), ".parquet")


def _hub_rows(source: str, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    match = re.fullmatch(_HUB, source)
    if match is None:
        raise UserError(f"{source}: a Hugging Face dataset is written hf:name, hf:name@config or hf:name@config:split")
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{source}: needs the package datasets: pip install 'outrider[datasets]'") from error
    try:
        rows = datasets.load_dataset(match["name"], match["config"], split=match["split"] or split)
    except Exception as error:  # offline, unknown, gated, no such config or split: all have different exception classes
        raise UserError(f"{source}: cannot be loaded: {' '.join(str(error).split())}") from error
    for number, fields in enumerate(rows, 1):
        yield f"{source}, row {number}", fields
