"""verl's rollouts: ``<trainer.rollout_data_dir>/<step>.jsonl``, and those of ``trainer.validation_data_dir``.

As verl 0.9.1 writes them, by either of its trainers: ``input``, ``output`` (decoded texts without special tokens),
``gts``, ``score``, ``step``, and what else the reward function returned, such as ``acc`` and ``pred``. The validation
adds ``reward``. The newer trainer adds ``uid``, ``<prompt>_<rollout>_<output>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider.importers.asked import Asked
from outrider.importers.files import Head
from outrider.importers.format import Format
from outrider.importers.lines import Record, json_lines
from outrider.importers.notes import Notes
from outrider.importers.success import missing, outcome_of
from outrider.importers.table import Row

_UID = re.compile(r"(.+)_(\d+)_(\d+)")


def recognises(head: Head) -> bool:
    """JSON lines with an input, an output and a score."""
    return head.kind == "json" and {"input", "output", "score"} <= head.names


def rows(paths: Sequence[Path], notes: Notes, asked: Asked) -> Iterator[Row]:
    """Rollouts of verl, a file a step.

    Success is ``acc``, where it is 0 or 1; reward managers fill it with a shaped score where the reward function has
    no accuracy of its own, and such a number states no success. Lines with ``reward`` come from the validation.

    Where an agent's rollout has several outputs, the last one stands for it, as verl validates.
    """
    for path in paths:
        for data, where in _final(json_lines(path, notes), notes):
            yield Row(_values(data, notes), data, where)


def _values(data: Any, notes: Notes) -> dict[str, Any]:
    validated = "reward" in data
    if validated:
        notes.say("Lines with the field reward are taken as verl's validation, which alone writes it, not as training.")
    values = {
        "split": "evaluate" if validated else "train",
        "step": data.get("step"),
        "prompt": data.get("input"),
        "text": data.get("output"),
        "reward": data.get("score"),
        "answer": data.get("pred"),
    }
    uid = data.get("uid")
    if isinstance(uid, str):
        parts = _UID.fullmatch(uid)
        values["group"] = parts[1] if parts else uid
    if not missing(data.get("acc")):
        values["outcome"] = outcome_of(data["acc"])
        notes.say("Success is acc, where it is 1.")
        if values["outcome"] is None:
            notes.count("rollout has an acc other than 0 and 1", "rollouts have an acc other than 0 and 1")
    return values


def _final(records: Iterator[Record], notes: Notes) -> Iterator[Record]:
    """The last output of each rollout; those of one rollout follow each other in the file."""
    last: Record | None = None
    for record in records:
        if last is not None:
            if _rollout(last) is not None and _rollout(last) == _rollout(record):
                notes.count(
                    "earlier output of a rollout was left out: its last one stands for it",
                    "earlier outputs of rollouts were left out: the last one stands for each",
                )
            else:
                yield last
        last = record
    if last is not None:
        yield last


def _rollout(record: Record) -> tuple[str, str] | None:
    uid = record.data.get("uid")
    parts = _UID.fullmatch(uid) if isinstance(uid, str) else None
    return (parts[1], parts[2]) if parts else None


FORMAT = Format("verl", recognises, rows)
