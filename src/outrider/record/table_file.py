"""The rows of CSV and Parquet files, one at a time, each with its place for messages."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from outrider.errors import UserError

BATCH = 1024  # rows of a Parquet file that are Python objects at a time


def csv_rows(path: Path, file: IO[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a CSV file, all cells as texts, each at the line where it begins; the first line names the columns.

    Raises:
        UserError: it is no CSV in UTF-8, a row has more or fewer cells than there are columns, or two have one name.
    """
    csv.field_size_limit(sys.maxsize)  # the default refuses cells over 128 KiB, as tests of programs may be
    place = f"{path}, line 1"
    try:
        with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = csv.reader(text, strict=True)
            names = next(lines, [])
            _refuse_twins(names, place)
            place = f"{path}, line {lines.line_num + 1}"
            for cells in lines:
                if cells and len(cells) != len(names):
                    raise UserError(f"{place}: {len(cells)} cells, but the first line names {len(names)} columns")
                if cells:
                    yield place, dict(zip(names, cells, strict=True))
                place = f"{path}, line {lines.line_num + 1}"
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{place}: broken CSV: {error}") from error


def parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a Parquet file.

    Raises:
        UserError: the file is damaged, or two columns have one name.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            _refuse_twins(file.schema_arrow.names, str(path))
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: cannot be read after row {number}: {' '.join(str(error).split())}") from error


def _refuse_twins(names: Iterable[str], place: str) -> None:
    """The last of two equal names would win without a word."""
    if twins := [name for name, times in Counter(names).items() if times > 1]:
        raise UserError(f"{place}: two columns are called {twins[0]!r}")
