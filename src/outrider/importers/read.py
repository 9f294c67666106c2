"""Detects the format of a dump, and reads the dump as a plain table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from outrider.errors import UserError, nearest
from outrider.importers import columns as any_columns
from outrider.importers import inspect_log, lm_eval, open_instruct, trl, verifiers, verl
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head, files_of, head_of
from outrider.importers.notes import Notes
from outrider.importers.table import ImportedRow, note_counts, table


class Format(Protocol):
    """The format of a framework's dump: ``recognises`` checks the head of a file, ``rows`` yields rollouts from files.

    The notes say how fields were read and what was excluded. The user's mapping is applied to the rows afterwards, so
    most formats can ignore it.
    """

    def recognises(self, head: Head) -> bool: ...

    def rows(self, paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]: ...


FORMATS: dict[str, Format] = {
    "trl": trl,
    "verl": verl,
    "verifiers": verifiers,
    "open-instruct": open_instruct,
    "lm-eval": lm_eval,
    "inspect": inspect_log,
    "columns": any_columns,
}
_READABLE = {"columns": ("parquet", "json", "text")}


class Imported(NamedTuple):
    """An imported dump.

    Attributes:
        rollouts: a table with the schema :data:`outrider.importers.plain.PLAIN`.
        format: name of the format.
        notes: sentences that say how fields were read, and what was skipped and how often.
        warnings: the first of the notes: which parts of the dump were not read.
    """

    rollouts: pa.Table
    format: str
    notes: list[str]
    warnings: Sequence[str] = ()


def detect(path: str | Path) -> str | None:
    """Return the format of a file, or of the first file in a folder with a known format; None if none is known.

    The content decides: the columns of a Parquet file, the keys of the first record, or the files in a ZIP. A plain
    table is not a dump, so its format is None.

    Raises:
        UserError: ``path`` does not exist or cannot be opened.
    """
    names = (_format_of(head_of(file)) for file in files_of(Path(path)))
    return next((name for name in names if name is not None), None)


def read(path: str | Path, format: str | None = None, columns: Mapping[str, str] | None = None) -> Imported:
    """Read the rollouts of a dump: of one file, or of all files of its format below a folder, in order.

    Args:
        path: file or folder.
        format: a name in ``FORMATS``; None: detect the format, or use ``columns`` if none is detected.
        columns: the record's field for each column, see :class:`outrider.importers.column_mapping.ColumnMapping`.
            Required by the format ``columns``; with another format, it overrides the format's own fields, as in
            ``{"success": "reward >= 1"}``.

    Raises:
        UserError: an unknown format, files of several formats, a field that no record has, or an unreadable record
            (the message names file and line).
    """
    mapping, notes = ColumnMapping(columns), Notes()
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise UserError(f"there is no format {format!r}; {nearest(format, FORMATS)}.")
    files = [(file, head_of(file)) for file in files_of(path)]
    name = format or _only_format(path, files, bool(columns))
    paths = _chosen(path, files, name, notes)
    done = table(mapping.applied(FORMATS[name].rows(paths, notes, mapping), notes), notes)
    note_counts(done, notes)
    return Imported(done, name, notes.sentences(), notes.warnings())


def _format_of(head: Head) -> str | None:
    return next((name for name, format in FORMATS.items() if format.recognises(head)), None)


def _only_format(path: Path, files: Iterable[tuple[Path, Head]], named: bool) -> str:
    """Return the only format that occurs.

    Raises:
        UserError: several formats occur, or none and there is no mapping.
    """
    result = dict.fromkeys(name for _, head in files if (name := _format_of(head)) is not None)
    if len(result) > 1:
        raise UserError(f"{path} has dumps of several formats, {', '.join(result)}: name the one to read.")
    if result:
        return next(iter(result))
    if named:
        return "columns"
    heads = [head for _, head in files]
    names = next((sorted(head.names) for head in heads if head.kind in ("json", "parquet", "text") and head.names), [])
    if names:
        listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise UserError(
            f"{path} is not a dump of a known format ({', '.join(FORMATS)}); its fields are {listed}: name those of "
            "the problem and of success, such as problem: 'prompt' and success: 'is_correct'."
        )
    empty = heads and all(head.kind == "empty" for head in heads)
    raise UserError(f"{path} {'is empty' if empty else 'has no readable record'}, so its format is unknown.")


def _chosen(path: Path, files: list[tuple[Path, Head]], name: str, notes: Notes) -> list[Path]:
    """Return the files of a format: always a single file; in a folder, other files are skipped and counted."""
    if path.is_file():
        return [path]
    kinds = _READABLE.get(name)
    paths = [file for file, head in files if (head.kind in kinds if kinds else FORMATS[name].recognises(head))]
    others = len(files) - len(paths)
    notes.count(f"other file in {path} was skipped", f"other files in {path} were skipped", others)
    return paths
