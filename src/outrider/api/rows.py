"""Writes in-memory rows to a file that a run can read as a table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from outrider.errors import UserError
from outrider.record.disk import write_atomically


def table_of(data: Any, folder: Path, name: str) -> str:
    """Return the path of the file with the rows of ``data``. If the rows are in memory, write them to a file in
    ``folder``.

    The file's name is a hash of its content, so a resumed run with the same rows uses the same file.

    Args:
        data: a path (or ``hf:name``), a list of dicts, a pandas or polars frame, or a ``datasets.Dataset``.
        name: name of the caller's argument, such as ``eval_data``, for error messages.

    Raises:
        UserError: ``data`` has another type or no rows, or a row is not plain JSON data.
    """
    if isinstance(data, str | Path):
        return str(data)
    path, content = file_of(data, folder, name)
    write_rows(path, content)
    return str(path)


def file_of(data: Any, folder: Path, name: str) -> tuple[Path, bytes]:
    """Return the path and the content of the file for rows in memory, without writing the file.

    Raises:
        UserError: see :func:`table_of`.
    """
    rows = list(_rows(data, name))
    if not rows:
        raise UserError(f"{name} has no rows")
    content = b"".join(_line(row, i, name) for i, row in enumerate(rows))
    return folder / f"{hashlib.blake2b(content, digest_size=8).hexdigest()}.jsonl", content


def write_rows(path: Path, content: bytes) -> None:
    """Write a file of rows unless it exists. Since a file's name is a hash of its content, an existing file has the
    same content."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def _rows(data: Any, name: str) -> Iterable[Mapping[str, Any]]:
    if hasattr(data, "to_dicts"):  # polars
        data = data.to_dicts()
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        data = data.to_dict("records")
    if not isinstance(data, Iterable):
        raise UserError(f"{name} is {type(data).__name__}: give a path, a list of dicts, a frame or a dataset")
    for i, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise UserError(f"{name}: row {i} is {type(row).__name__}, not a mapping of columns to values")
        yield row


def _line(row: Mapping[str, Any], i: int, name: str) -> bytes:
    """Return a row as a line of JSON. NaN, which marks missing values in data frames, becomes null.

    Raises:
        UserError: a value cannot be written as JSON; the message names the row and the column.
    """
    parts = []
    for column, value in row.items():
        missing = isinstance(value, float) and value != value
        try:
            written = json.dumps(None if missing else value, ensure_ascii=False, allow_nan=False, default=_plain)
            parts.append(f"{json.dumps(str(column))}: {written}".encode())
        except (TypeError, ValueError) as error:
            raise UserError(f"{name}: row {i}, column {column!r} is no plain JSON data: {error}") from None
    return b"{" + b", ".join(parts) + b"}\n"


def _plain(value: Any) -> Any:
    """Convert NumPy numbers and arrays to plain Python values. NumPy dates are not converted, since they would become
    numbers without a unit."""
    if hasattr(value, "tolist") and getattr(getattr(value, "dtype", None), "kind", "") not in ("M", "m"):
        return value.tolist()
    raise TypeError(f"{value!r:.40} of type {type(value).__name__}")
