"""Builds the table of rollouts (schema ``PLAIN``) from the rows of any file format, a few hundred rows at a time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from outrider.errors import UserError
from outrider.importers.notes import Notes
from outrider.importers.plain import PLAIN
from outrider.importers.text import as_text, response_text, short, stable_id, turns_of
from outrider.record.rollout import StopReason
from outrider.record.verdict import Outcome

BATCH = 256  # number of rows held as Python objects at a time; about ten megabytes if responses are long
SPLITS = ("train", "evaluate", "greedy")
_FIXED: dict[str, Any] = {
    "step": 0,
    "stream": "main",
    "stage": "",
    "context": "plain",
    "parent": None,
    "branch_at": 0,
    "unused": "",
    "text": None,
}
_COUNTED = {"problem": "problem_id", "group": "group_id", "step": "step"}
_INTS = {pa.int32(): 31, pa.int64(): 63}
_COUNTS = {"step", "tokens", "turns", "observed", "turn_errors", "branch_at"}  # never below 0


class ImportedRow(NamedTuple):
    """One rollout as a format's importer has read it.

    Attributes:
        values: the values for columns of ``PLAIN``, by column name. A value may still have the type that it has in the
            file, such as messages instead of text, or text instead of a number. Two other keys can have values of any
            type: ``problem`` identifies the problem (default: the prompt), and ``group`` identifies the group within a
            step (default: the problem). :func:`table` computes the columns ``group_id``, ``problem_id`` and ``member``
            (the number of the rollout in its group).
        raw: the fields of the record, which a user's column mapping may name.
        where: file and line, for error messages.
        named: for each column, the field that the user's column mapping names, for error messages.
    """

    values: dict[str, Any]
    raw: Mapping[str, Any]
    where: str
    named: Mapping[str, str] = {}


def table(rows: Iterable[ImportedRow], notes: Notes) -> pa.Table:
    """Build a table with the schema ``PLAIN`` from rows, in the same order.

    A problem's id is the row's ``problem`` or, if ``problem`` is missing, a hash of the prompt. If the row has a
    ``test_set``, the id starts with the name of the test set. A row with neither ``problem`` nor prompt is skipped and
    counted. A group is one problem in one step of one split; the group's rollouts are numbered in the order of the
    rows. If the rows come from several models, ids begin with the ``model``, so that no statistic mixes two models.

    Values of other types in a text column are converted to text. A response must be text, messages or null; nulls are
    counted. Lone surrogates are escaped, since UTF-8 cannot encode them.

    Raises:
        UserError: a value in a numeric column is not a number or is out of range; a response is a number or a list; a
            split is not one of ``SPLITS``.
    """
    members: defaultdict[tuple[str | None, str], int] = defaultdict(int)
    rows = iter(rows)
    batches = []
    while chunk := list(islice(rows, BATCH)):
        known = [(values, row.where) for row in chunk if (values := _identified(row, members, notes)) is not None]
        columns = [_column(field, known) for field in PLAIN]
        batches.append(pa.record_batch(columns, schema=PLAIN))
    return _apart_by_model(pa.Table.from_batches(batches, PLAIN))


def _apart_by_model(done: pa.Table) -> pa.Table:
    """Prefix ids with the model's name if there are several models. If a row has no model, its prefix is "(none)"."""
    if len(done["model"].unique()) < 2:
        return done
    models = pc.fill_null(done["model"], "(none)")
    done = done.set_column(PLAIN.get_field_index("model"), PLAIN.field("model"), models)
    for name in ("problem_id", "group_id"):
        ids = pc.binary_join_element_wise(models, done[name], "/")
        done = done.set_column(PLAIN.get_field_index(name), PLAIN.field(name), ids)
    return done


def _identified(
    row: ImportedRow, members: defaultdict[tuple[str | None, str], int], notes: Notes
) -> dict[str, Any] | None:
    values, where = {**_FIXED, **row.values}, row.where
    problem = problem_id(values)
    test_set, model = (_text(values.get(name)) or None for name in ("test_set", "model"))
    if problem is None:
        notes.count(
            "rollout without a problem or prompt was skipped", "rollouts without a problem or prompt were skipped"
        )
        return None
    split, step = values["split"], _number(PLAIN.field("step"), values["step"], where)
    if split not in SPLITS:
        raise UserError(f"{where}: the split is {split!r}, but should be one of {', '.join(SPLITS)}.")
    group = values.get("group")
    if step is None:
        notes.count("rollout has no step and is read as step 0", "rollouts have no step and are read as step 0")
        step = 0
    problem = f"{test_set}/{problem}" if test_set else problem
    group_id = f"{split}:{step}:{problem if group is None else _label(group)}"
    values |= {"step": step, "problem_id": problem, "group_id": group_id, "member": members[model, group_id]}
    values |= {"test_set": test_set, "model": model}
    values["text"] = _response(row, notes)
    if values.get("turns") is None:
        values["turns"] = turns_of(row.values.get("text"))
    if values.get("stop") not in (None, *StopReason):
        values["stop"] = None
        notes.count("stop reason is unknown and was skipped", "stop reasons are unknown and were skipped")
    if values.get("prompt") is None and not _is_label(values.get("problem")):
        values["prompt"] = values.get("problem")  # a long text in this field is the prompt itself
    members[model, group_id] += 1
    return values


def _response(row: ImportedRow, notes: Notes) -> str | None:
    """Return the text of a response. A null response is counted in the notes, under the name of its field."""
    if "text" not in row.values:
        return None
    name = row.named.get("text", "the response")
    try:
        text = response_text(row.values["text"])
    except ValueError as error:
        raise UserError(f"{row.where}: {name} is {error}.") from None
    if text is None:
        notes.count(
            f"rollout has no response ({name} is null), so it cannot be verified",
            f"rollouts have no response ({name} is null), so they cannot be verified",
        )
    return text


def problem_id(values: Mapping[str, Any]) -> str | None:
    """Return the id of a row's problem; None if unknown.

    A number, or a text of at most 64 characters without spaces, is used as the id. For any other ``problem``, the id is
    its hash. If there is no ``problem``, the id is the hash of the prompt.

    >>> problem_id({"problem": 17, "prompt": "2 + 2?"}), problem_id({"prompt": "2 + 2?"})
    ('17', 'p-485a0cd90586969e')
    >>> problem_id({"problem": "2 + 2?"}), problem_id({"problem": None, "prompt": None})
    ('p-485a0cd90586969e', None)
    """
    named = values.get("problem")
    # NaN, an empty cell, is not equal to itself
    if named is not None and named != "" and named == named:
        return _label(named)
    prompt = values.get("prompt")
    return None if prompt is None else stable_id(as_text(prompt))


def _label(value: Any) -> str:
    """Return a value as a short text: 7 and 7.0 both become ``"7"``, and a long text becomes its hash."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if _is_label(value) else stable_id(as_text(value))


def _is_label(value: Any) -> bool:
    """Whether a value is already an id: a number, or a short text without spaces."""
    return isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= 64 and value.split() == [value])


def _column(field: pa.Field, rows: list[tuple[dict[str, Any], str]]) -> pa.Array:
    """Convert the rows' values to one column of the table. Each row comes with its place in the file, for error
    messages.
    """
    if field.type == pa.string():
        return pa.array([_text(values.get(field.name)) for values, _ in rows], field.type)
    return pa.array([_number(field, values.get(field.name), where) for values, where in rows], field.type)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    text = value if isinstance(value, str) else as_text(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _number(field: pa.Field, value: Any, where: str) -> Any:
    """Return an int or float for a numeric column, or None for a missing value. The value may be written as text, as in
    CSV.
    """
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, (bool, int, float, str)) else None
    except (ValueError, OverflowError):
        number = None
    if number is None:
        raise UserError(f"{where}: {field.name} is {short(value)}, which is not a number.")
    if field.type not in _INTS:
        return number
    if math.isnan(number):
        return None
    # not from the float, which rounds whole numbers above 2**53
    whole = int(value) if isinstance(value, int) else number
    least = 0 if field.name in _COUNTS else -(2 ** _INTS[field.type])
    # the range is checked first, since int() of an infinity fails
    if not least <= whole < 2 ** _INTS[field.type] or whole != int(whole):
        raise UserError(f"{where}: {field.name} is {short(value)}, which is not an integer in range.")
    return int(whole)


def note_counts(done: pa.Table, notes: Notes) -> None:
    """Add notes on how many rollouts, problems and groups there are, and how many rollouts were never verified."""
    if not len(done):
        notes.say("The dump holds no rollouts.")
        return
    rollouts, problems, groups, steps = (
        f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"
        for word, n in [
            ("rollout", len(done)),
            *((word, len(done[name].unique())) for word, name in _COUNTED.items()),
        ]
    )
    apart = "" if len(done["model"].unique()) < 2 else " (those of each model counted apart)"
    notes.say(f"Read {rollouts} of {problems}{apart} in {groups} and {steps}.")
    unverified = done["outcome"].null_count
    if unverified:
        share = "No rollout" if unverified == len(done) else f"{len(done) - unverified:,} of {len(done):,} rollouts"
        known = "has" if unverified == len(done) else "have"
        how = "give the rule of success, such as success: 'reward >= 1', or verify them with `outrider score`"
        notes.say(f"{share} {known} a verdict; {how}.")
    failed = sum(1 for word in done["outcome"].to_pylist() if word in (Outcome.ERROR, Outcome.TIMEOUT))
    if failed:
        notes.say(f"{failed:,} rollouts ended in an error or a timeout and count as unscorable, not as failures.")
