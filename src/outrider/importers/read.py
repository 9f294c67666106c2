"""The format of a dump, and the dump as a plain table."""

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
    """What each file of a framework's dump is: whether a file that begins like this is one, and the rollouts of some.

    What is taken as what and what is excluded goes into the notes. What the user asked for is applied to the rows
    afterwards, so most formats need not look at it.
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
    """A dump that was read.

    Attributes:
        rollouts: a table with the schema :data:`outrider.importers.plain.PLAIN`.
        format: its name.
        notes: sentences: what was taken as what, what was skipped and how many.
        warnings: the first of these: in what part the dump was not read.
    """

    rollouts: pa.Table
    format: str
    notes: list[str]
    warnings: Sequence[str] = ()


def detect(path: str | Path) -> str | None:
    """The format of a file, or of the first file in a folder that has one; None if it is not known.

    By content: the columns of a Parquet file, the keys of the first record, what lies in a ZIP. The plain form is no
    dump, and so None.

    Raises:
        UserError: there is nothing at ``path``, or it cannot be opened.
    """
    names = (_format_of(head_of(file)) for file in files_of(Path(path)))
    return next((name for name in names if name is not None), None)


def read(path: str | Path, format: str | None = None, columns: Mapping[str, str] | None = None) -> Imported:
    """The rollouts of a dump: of one file, or of all files of its format in a folder and its folders, in order.

    Args:
        path: file or folder.
        format: a name of ``FORMATS``; None detects it, and takes ``columns`` where nothing is detected.
        columns: the field of a record for each column, see
            :class:`outrider.importers.column_mapping.ColumnMapping`. Needed by the format ``columns``; another format's
            own fields are overridden, as by ``{"success": "reward >= 1"}``.

    Raises:
        UserError: an unknown format, files of several formats, a field that no record has, or a record that cannot be
            read, with its file and line.
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
    """The one format that occurs.

    Raises:
        UserError: several occur, or none and there is no mapping.
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
    """The files of a format: a single file in any case; in a folder others are skipped and counted."""
    if path.is_file():
        return [path]
    kinds = _READABLE.get(name)
    paths = [file for file, head in files if (head.kind in kinds if kinds else FORMATS[name].recognises(head))]
    others = len(files) - len(paths)
    notes.count(f"other file in {path} was skipped", f"other files in {path} were skipped", others)
    return paths
