"""Reads rollout files (JSON lines, Parquet or CSV) of any other framework; the user names the fields.

The user needs to name only the fields for the problem and for success: ``{"problem": "prompt", "success":
"is_correct"}``. All valid keys of this mapping are in :data:`outrider.importers.column_mapping.COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from outrider.errors import UserError
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head, head_of
from outrider.importers.lines import Record, json_lines, opened
from outrider.importers.notes import Notes
from outrider.importers.table import ImportedRow
from outrider.record.table_file import csv_rows, parquet_rows


def recognises(head: Head) -> bool:
    """Return False: these files may have any fields, so their content does not identify the format."""
    return False


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield the records unchanged; the user's column mapping is applied to the records later.

    If the mapping has a field for the step, all rollouts count as training rollouts; otherwise, they count as
    evaluation rollouts.

    Raises:
        UserError: the mapping has no field for the problem, or a file is not JSON lines, Parquet or CSV.
    """
    if "problem" not in mapping.fields and "prompt" not in mapping.fields:
        raise UserError(
            "for a dump of an unknown format, name at least the field of the problem, such as problem: 'prompt'."
        )
    split = "train" if "step" in mapping.fields else "evaluate"
    if "split" not in mapping.fields and paths:
        notes.say(
            f"All rollouts get the split {split}, because there is {'there is a' if split == 'train' else 'no'} "
            "field for the step."
        )
    if len(paths) > 1:
        notes.say(f"{len(paths):,} files are read as one dump: responses to a problem count together, across files.")
    for path in paths:
        for data, where in _records(path, head_of(path).kind, notes):
            yield ImportedRow({"split": split}, data, where)


def _records(path: Path, kind: str, notes: Notes) -> Iterator[Record]:
    if kind == "parquet":
        yield from (Record(row, where) for where, row in parquet_rows(path))
    elif kind == "text":
        with opened(path) as file:
            yield from (Record(row, where) for where, row in csv_rows(path, file))
    elif kind in ("json", "empty"):
        yield from json_lines(path, notes)
    else:
        raise UserError(f"{path} is not JSON lines, Parquet or CSV.")
