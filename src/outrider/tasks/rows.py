"""Reading tables of problems: rows with their place in the file, and one sentence for whatever is wrong with it."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from outrider.errors import UserError

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
_HUB = re.compile(r"hf:(?P<name>[^@:]+)(?:@(?P<config>[^:]+))?(?::(?P<split>.+))?")


class Row(NamedTuple):
    """One row, and where it is: ``data/test.jsonl, line 7``."""

    place: str
    fields: dict[str, Any]


def read_rows(source: str, split: str) -> Iterator[Row]:
    """The rows of a table in order: a path, or ``hf:name[@config][:split]`` with ``split`` where it names none.

    Raises:
        UserError: there is no such table, its format is unknown, or a row cannot be read.
    """
    if source.startswith("hf:"):
        return _hub_rows(source, split)
    path = Path(source).expanduser()
    if not path.name.endswith(SUFFIXES):
        raise UserError(f"{source}: not a table; known are files ending in {', '.join(SUFFIXES)}, and hf:<dataset>")
    if not path.is_file():
        raise UserError(f"{source}: no such file (looked in {path.absolute().parent})")
    return _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path)


def _json_rows(path: Path) -> Iterator[Row]:
    """One object a line, in UTF-8; lines of white space are no rows."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield Row(f"{path}, line {number}", _json_object(line, f"{path}, line {number}"))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read after line {number}: {error}") from error


def _json_object(line: bytes, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # of UTF-8 too
        raise UserError(f"{place}: broken JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{place}: an object with fields is needed, not {type(value).__name__}")
    return value


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        for batch in pq.ParquetFile(path).iter_batches():
            for fields in batch.to_pylist():
                number += 1
                yield Row(f"{path}, row {number}", fields)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: cannot be read after row {number}: {error}") from error


def _hub_rows(source: str, split: str) -> Iterator[Row]:
    match = _HUB.fullmatch(source)
    if match is None:
        raise UserError(f"{source}: a Hugging Face dataset is written hf:name, hf:name@config or hf:name@config:split")
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{source}: needs the package datasets: pip install 'outrider[datasets]'") from error
    try:
        rows = datasets.load_dataset(match["name"], match["config"], split=match["split"] or split)
    except Exception as error:  # offline, unknown, gated, no such config or split: each has a class of its own
        raise UserError(f"{source}: cannot be loaded: {' '.join(str(error).split())}") from error
    for number, fields in enumerate(rows, 1):
        yield Row(f"{source}, row {number}", fields)
