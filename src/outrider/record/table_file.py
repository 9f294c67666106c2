"""Reads CSV and Parquet files row by row. Each row comes with its place in the file, for error messages."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from outrider.errors import UserError

BATCH = 1024  # rows of a Parquet file converted to Python objects at a time


def csv_rows(path: Path, file: IO[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a CSV file with its place, which is the file and the line where the row begins.

    All cells are strings. The first line names the columns.

    Raises:
        UserError: the file is not CSV in UTF-8, a row has too many or too few cells, or two columns have the same name.
    """
    csv.field_size_limit(sys.maxsize)  # a program's tests may exceed the default limit of 128 KiB per cell
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
    """Yield each row of a Parquet file with its place in the file.

    Raises:
        UserError: the file is damaged, or two columns have the same name.
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
    """Reject duplicate column names, because a column would replace an earlier column with the same name."""
    if twins := [name for name, times in Counter(names).items() if times > 1]:
        raise UserError(f"{place}: two columns are called {twins[0]!r}")
