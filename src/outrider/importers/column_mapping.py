"""The user's column mapping: for each column of the imported table, the name of a field in the files of rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from outrider.errors import UserError, nearest
from outrider.importers.notes import Notes
from outrider.importers.success import SuccessRule
from outrider.importers.table import SPLITS, ImportedRow
from outrider.record.verdict import Outcome

COLUMNS = (
    *("problem", "success", "prompt", "text", "reward", "answer", "detail", "level", "split", "step", "group"),
    *("stage", "stream", "tokens", "turns", "observed", "turn_errors", "entropy", "logprob", "advantage", "seconds"),
    *("stop", "policy_version", "test_set", "model"),
)
_ABSENT = object()


class ColumnMapping:
    """A checked mapping from column names to record fields of a dump (files of rollouts from another framework).

    ``COLUMNS`` lists the valid column names. ``problem`` and ``group`` are the ids of the rollout's problem and group.
    The value for ``success`` is the name of a field with values such as ``true`` or 1, or a rule such as
    ``reward >= 1``. A nested field is written with dots, as in ``doc.level``. The value for ``split`` may also be the
    name of a split, such as ``train``.

    Raises:
        UserError: an unknown column, or an invalid rule.
    """

    def __init__(self, columns: Mapping[str, str] | None) -> None:
        columns = dict(columns or {})
        for name in columns:
            if name not in COLUMNS:
                raise UserError(f"unknown column {name!r} of a rollout; {nearest(name, COLUMNS)}.")
        self.success = SuccessRule.parse(columns.pop("success")) if "success" in columns else None
        self.fields = columns

    def applied(self, rows: Iterable[ImportedRow], notes: Notes) -> Iterator[ImportedRow]:
        """Yield the rows with the values of the mapped fields, which replace values that the importer has set.

        A success rule does not change errors and timeouts, since it is unknown whether these rollouts would have
        succeeded.

        Raises:
            UserError: a field of the mapping does not occur in any record, or the success rule cannot be applied to a
                value.
        """
        if not self.fields and self.success is None:
            yield from rows
            return
        wanted = {*self.fields.values(), *([self.success.field] if self.success else [])} - {""}
        unseen, known = set(wanted), dict[str, None]()
        for row in rows:
            results = {name: look_up(row, name) for name in wanted}
            if unseen:
                unseen -= {name for name, value in results.items() if value is not _ABSENT}
                known |= dict.fromkeys([*row.raw, *row.values])
            yield ImportedRow(self._values(row, results), row.raw, row.where, self.fields)
        unseen -= set(SPLITS) if self.fields.get("split") in unseen else set()
        if unseen and known:
            field = min(unseen)
            raise UserError(f"no record has a field {field!r}; {nearest(field, known)}.")
        self._note(notes)

    def _values(self, row: ImportedRow, result: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(row.values)
        for name, field in self.fields.items():
            value = result[field]
            if value is _ABSENT:
                value = field if name == "split" and field in SPLITS else None
            values[name] = value
        if self.success and values.get("outcome") not in (Outcome.ERROR, Outcome.TIMEOUT):
            value = result[self.success.field]
            values["outcome"] = None if value is _ABSENT else self.success.outcome(value, row.where)
        return values

    def _note(self, notes: Notes) -> None:
        if self.success:
            limit = f" {self.success.symbol} {self.success.limit}" if self.success.symbol else ""
            notes.say(f"Success is {self.success.field}{limit}, as asked.")
        for name, field in self.fields.items():
            notes.say(f"{name} is {field}, as asked.")


def look_up(row: ImportedRow, field: str) -> Any:
    """Return the value of a record's field. ``field`` is a key of the record, a column that the importer has filled, or
    a nested field written with dots.
    """
    if field in row.raw:
        return row.raw[field]
    if field in row.values:
        return row.values[field]
    value: Any = row.raw
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _ABSENT
        value = value[part]
    return value
