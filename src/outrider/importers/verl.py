"""Reads verl's ``<trainer.rollout_data_dir>/<step>.jsonl``, and the files in ``trainer.validation_data_dir``.

The format is that of verl 0.9.1. A line has ``input`` and ``output`` (decoded texts without special tokens), ``gts``,
``score`` and ``step``. It also has all other values that the reward function returned, such as ``acc`` and ``pred``.
Validation adds ``reward``. Verl's V1 trainer adds ``uid``, in the form ``<prompt>_<rollout>_<output>``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.importers.apart import OneRun
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head
from outrider.importers.lines import Record, json_lines
from outrider.importers.notes import Notes
from outrider.importers.success import missing, outcome_of
from outrider.importers.table import ImportedRow
from outrider.importers.text import as_text, stable_id

_UID = re.compile(r"(.+)_(\d+)_(\d+)")


def recognises(head: Head) -> bool:
    """Whether a file is JSON lines with an input, an output and a score."""
    return head.kind == "json" and {"input", "output", "score"} <= head.names


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield the rollouts of verl's files; each file contains one step.

    ``acc`` is read as success (1) or failure (0). Any other value is ignored, since it may be a score: verl's reward
    managers store the score in ``acc`` if the reward function returns no accuracy. Lines with ``reward`` come from
    validation.

    If an agent's rollout has several outputs, only the last output is read, as in verl's validation.

    If lines have no ``uid``, the responses to one prompt in a step form a group. A prompt that occurs twice in a step
    has twice as many responses as other prompts. These responses are split into two groups, in the order of the file,
    and a note reports the number of such prompts (see :func:`_repeated`).
    """
    run = OneRun()
    for path in paths:
        repeated = _repeated(path, notes)
        seen: Counter[PromptKey] = Counter()
        for data, where in _final(json_lines(path, notes), notes):
            values, key = _values(data, notes), _key(data)
            run.check(values["split"], values["step"], str(path.parent), path)
            if key in repeated:
                draw = seen[key] // repeated[key]
                seen[key] += 1
                values["group"] = f"{key[2]}#{draw + 1}" if draw else None
            yield ImportedRow(values, data, where)


PromptKey = tuple[Any, bool, str]  # step, whether the line is from validation, prompt


def _key(data: Mapping[str, Any]) -> PromptKey:
    return str(data.get("step")), "reward" in data, stable_id(as_text(data.get("input")))


def _repeated(path: Path, notes: Notes) -> dict[PromptKey, int]:
    """Return the group size of each prompt that occurs several times in a step; lines with a ``uid`` are ignored.

    The group size is the most frequent number of responses per prompt in the step (the smaller number if two numbers
    are equally frequent). A prompt counts as repeated if its number of responses is a multiple of the group size, and
    larger than the group size. A group size of 1 is accepted only if more than half of the prompts have one response.
    If the number of responses is larger than the group size, but not a multiple of it, the responses are not split into
    groups, and the prompt is counted in the notes.
    """
    # separate notes, which are discarded: rows() reads these lines again and counts what is excluded
    sizes = Counter(_key(data) for data, _ in json_lines(path, Notes()) if not isinstance(data.get("uid"), str))
    results: dict[PromptKey, int] = {}
    for step in dict.fromkeys((at, validated) for at, validated, _ in sizes):
        here = {key: size for key, size in sizes.items() if key[:2] == step}
        usual, times = min(Counter(here.values()).items(), key=lambda item: (-item[1], item[0]))
        more = {key: size for key, size in here.items() if size > usual}
        split = {key for key, size in more.items() if size % usual == 0 and (usual > 1 or times > len(here) / 2)}
        results |= dict.fromkeys(split, usual)
        for known, what in (
            (split, "was sampled again in its step, by the number of its responses; each time is a group"),
            (
                more.keys() - split,
                "has more responses than others in its step: only uid shows whether it occurs twice",
            ),
        ):
            notes.count(f"prompt {what}", f"times a prompt {what}", len(known))
    return results


def _values(data: Any, notes: Notes) -> dict[str, Any]:
    validated = "reward" in data
    if validated:
        notes.say(
            "Lines with the field reward are read as verl's validation, not as training, because only the "
            "validation writes this field."
        )
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
    """Yield the last output of each rollout; the outputs of one rollout are adjacent in the file."""
    last: Record | None = None
    for record in records:
        if last is not None:
            if _rollout(last) is not None and _rollout(last) == _rollout(record):
                notes.count(
                    "earlier output of a rollout was skipped: only its last output is read",
                    "earlier outputs of rollouts were skipped: only the last output of each is read",
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
