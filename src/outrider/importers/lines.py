"""Reads records of JSON lines one at a time, each with its location."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, NamedTuple

from outrider.errors import UserError
from outrider.importers.jsonobject import elements
from outrider.importers.notes import Notes
from outrider.record.disk import open_bytes


class Record(NamedTuple):
    """One record of a file, and its location (file and line) for messages."""

    data: Mapping[str, Any]
    where: str


def json_lines(path: Path, notes: Notes) -> Iterator[Record]:
    """Yield the objects of a JSON lines file in order, with one line in memory at a time. Empty lines are skipped.

    Only a line feed ends a line, since the separators U+2028 and U+0085 may occur unescaped in a string. NaN and
    infinities are accepted, since Python writes them.

    If the last line is unreadable, the line is skipped and counted, because its writer was probably interrupted or is
    still writing the line. A file that begins with a bracket is read as one list of objects.

    Raises:
        UserError: the file does not exist, or a record other than the last line cannot be read or is not an object.
    """
    if is_list(path):
        yield from _elements(path)
        return
    # only the last line may be broken, because an interrupted writer leaves an incomplete line
    broken = ""
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if broken:
                raise UserError(broken)
            try:
                data = json.loads(line)
            except (ValueError, RecursionError) as error:
                broken = f"{path}, line {number}: {_reason(error)}."
                continue
            if not isinstance(data, dict):
                broken = f"{path}, line {number}: it is not a JSON object."
                continue
            yield Record(data, f"{path}, line {number}")
    if broken:
        notes.count(
            "last line was skipped, because it is truncated", "last lines were skipped, because they are truncated"
        )


def is_list(path: Path) -> bool:
    """Whether the first character of a file is the bracket of a JSON list."""
    with opened(path) as file:
        return file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _elements(path: Path) -> Iterator[Record]:
    number = 1
    try:
        with opened(path) as file, TextIOWrapper(file, encoding="utf-8-sig") as text:
            for number, data in enumerate(elements(text), 1):
                if not isinstance(data, dict):
                    raise UserError(f"{path}, element {number}: it is not a JSON object.")
                yield Record(data, f"{path}, element {number}")
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, after element {number}: {_reason(error)}.") from error


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Context manager that opens a file for reading bytes, decompressed if the file's name ends in ``.gz`` or ``.zst``.

    Raises:
        UserError: the file cannot be opened, or its compressed data is damaged or truncated.
    """
    try:
        with open_bytes(path) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} cannot be read completely: its compression is damaged or truncated.") from error
    except OSError as error:
        if error.strerror is None:  # raised by pyarrow for compressed data
            raise UserError(f"{path} cannot be read completely: its compression is damaged or truncated.") from error
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def in_form(where: str, framework: str) -> Iterator[None]:
    """Context manager for reading one record: if the record does not have the framework's format, raise a one-sentence
    UserError.

    Raises:
        UserError: a part of the record is missing or has the wrong type.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        message = f"{type(error).__name__}: {error}"
        raise UserError(f"{where}: the record does not have the format of {framework} ({message}).") from error


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg} at character {error.pos + 1})"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {error.start + 1})"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"it is not JSON ({error})"
