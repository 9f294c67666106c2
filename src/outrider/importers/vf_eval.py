"""Reads ``results.jsonl`` of verifiers' ``vf-eval`` (0.1 to 0.3.1) and prime-rl's ``{train,eval}_rollouts.jsonl``.

A line in verifiers 0.1.14 and 0.3.1 has: ``example_id``, ``prompt``, ``completion`` (messages or text), ``answer``,
``info``, ``reward``, ``metrics`` (whose names are also keys of the line), ``error``, ``is_truncated``,
``stop_condition``, ``token_usage``, ``timing``. Before verifiers 0.1.9, a line had: ``prompt``, ``completion``,
``answer``, ``task``, ``reward``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from outrider.importers.notes import Notes
from outrider.importers.success import missing
from outrider.importers.table import ImportedRow
from outrider.record.verdict import Outcome

_MARKS = {"example_id", "task", "is_completed", "timing", "average_reward"}  # a line has at least one of these


def is_result(data: Mapping[str, Any]) -> bool:
    """Whether a record is a line of ``results.jsonl``."""
    return {"prompt", "completion", "reward"} <= data.keys() and not _MARKS.isdisjoint(data)


def result_row(path: Path, data: Mapping[str, Any], where: str, notes: Notes) -> ImportedRow:
    """Return one rollout of ``vf-eval`` as a row.

    A rollout is a success if ``reward >= pass_threshold``, with the threshold from ``metadata.json`` next to the file,
    as in ``vf-eval``'s pass@k. If there is no threshold, the rollout has no outcome. For prime-rl's files, the step and
    the split are read from the names of the folder and the file, since the records contain neither.
    """
    error = data.get("error")
    detail = error.get("error_chain_str") or error.get("error") if isinstance(error, dict) else error
    truncated = data.get("is_truncated")
    values: dict[str, Any] = {
        **_place(path, notes),
        "prompt": data["prompt"],
        "text": data["completion"],
        "reward": data["reward"],
        "tokens": (data.get("token_usage") or {}).get("output_tokens"),
        "advantage": data.get("advantage"),
        "stop": None if truncated is None else "length" if truncated else "stop",
        "detail": detail,
    }
    if error is not None:
        values["outcome"] = Outcome.ERROR.value
    elif (threshold := _threshold(path.with_name("metadata.json"))) is not None and not missing(data["reward"]):
        notes.say(f"Success is reward >= {threshold:g}, the pass_threshold of metadata.json.")
        solved = data["reward"] >= threshold
        values["outcome"] = (Outcome.CORRECT if solved else Outcome.INCORRECT).value
    return ImportedRow(values, data, where)


def _place(path: Path, notes: Notes) -> dict[str, Any]:
    match = re.fullmatch(r"step_(\d+)", path.parent.name)
    if not match:
        return {"split": "evaluate"}
    split = "train" if path.name.startswith("train") else "evaluate"
    notes.say("Steps come from the names of prime-rl's folders; files whose names begin with train are training.")
    return {"split": split, "step": int(match[1])}


@lru_cache(maxsize=64)
def _threshold(metadata: Path) -> float | None:
    try:
        data = json.loads(metadata.read_bytes())
    except (OSError, ValueError):
        return None
    threshold = data.get("pass_threshold") if isinstance(data, dict) else None
    return float(threshold) if isinstance(threshold, (int, float)) else None
