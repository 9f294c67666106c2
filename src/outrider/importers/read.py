"""Detects the format of a dump (files of rollouts from another framework), and reads the dump as a plain table."""

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
    """A framework's file format: ``recognises`` checks the beginning of a file, and ``rows`` yields rollouts from
    files.

    ``rows`` adds notes on how fields were read and which records were excluded. The user's column mapping is applied to
    the rows afterwards, so most formats can ignore the mapping.
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
    """An imported dump (files of rollouts from another framework).

    Attributes:
        rollouts: a table with the schema :data:`outrider.importers.plain.PLAIN`.
        format: name of the format.
        notes: sentences on how fields were read and how many records were skipped.
        warnings: the sentences about parts of the dump that were not read; ``notes`` begins with them.
    """

    rollouts: pa.Table
    format: str
    notes: list[str]
    warnings: Sequence[str] = ()


def detect(path: str | Path) -> str | None:
    """Return the format of a file. For a folder, return the format of the first file with a known format. Return None
    if no format is known.

    The format is detected by content: the columns of a Parquet file, the keys of the first record, or the file names in
    a ZIP. A table with the schema :data:`outrider.importers.plain.PLAIN` needs no import, so its format is None.

    Raises:
        UserError: ``path`` does not exist or cannot be opened.
    """
    names = (_format_of(head_of(file)) for file in files_of(Path(path)))
    return next((name for name in names if name is not None), None)


def read(path: str | Path, format: str | None = None, columns: Mapping[str, str] | None = None) -> Imported:
    """Read another framework's rollouts: from one file, or from all files of one format below a folder, in natural
    order.

    Args:
        path: file or folder.
        format: a name in ``FORMATS``; None: the detected format. If no format is detected and ``columns`` is given, the
            format is ``"columns"``.
        columns: for each column of the result, the field of the records that fills the column
            (:class:`outrider.importers.column_mapping.ColumnMapping`). The format ``"columns"`` requires this argument.
            For other formats, the argument replaces default fields; for example, ``{"success": "reward >= 1"}``
            redefines success.

    Raises:
        UserError: the format is unknown, the files have several formats, a field of ``columns`` does not occur in any
            record, or a record is unreadable (the message names file and line).
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
    """Return the only format among the files.

    Raises:
        UserError: the files have several formats, or no file has a known format and there is no column mapping.
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
    """Return the files to read. A single file is always read; in a folder, files of other formats are skipped."""
    if path.is_file():
        return [path]
    kinds = _READABLE.get(name)
    paths = [file for file, head in files if (head.kind in kinds if kinds else FORMATS[name].recognises(head))]
    others = len(files) - len(paths)
    notes.count(f"other file in {path} was skipped", f"other files in {path} were skipped", others)
    return paths
