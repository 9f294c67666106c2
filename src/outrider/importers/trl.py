"""Reads TRL's ``<output_dir>/completions/completions_<step>.parquet``, written with ``log_completions=True``.

The format is that of GRPOTrainer in TRL 1.16.0; DistillationTrainer's files have no rewards and advantages. The columns
are ``step``, ``prompt`` and ``completion`` (texts or messages), one column per reward function (named after the
function), columns that a reward function logged through ``log_extra``, and ``advantage``. A file contains the latest
generation batch at the time of logging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from outrider.importers.apart import OneRun
from outrider.importers.column_mapping import ColumnMapping
from outrider.importers.files import Head
from outrider.importers.notes import Notes
from outrider.importers.table import ImportedRow
from outrider.importers.trl_rewards import reward, rewards_of
from outrider.record.table_file import BATCH, parquet_rows


def recognises(head: Head) -> bool:
    """Whether a file is Parquet with a step, a prompt and a completion."""
    return head.kind == "parquet" and {"step", "prompt", "completion"} <= head.names


def rows(paths: Sequence[Path], notes: Notes, mapping: ColumnMapping) -> Iterator[ImportedRow]:
    """Yield the rollouts of TRL's files; each file contains one step.

    The reward is the sum of the reward functions' columns, as in TRL without ``reward_weights``;
    :mod:`outrider.importers.trl_rewards` finds the columns. TRL writes NaN as null. If a reward function's column is
    null, the function did not apply to the completion; if all columns are null, the completion is unscorable.

    A file with the same rollouts as the previous file is excluded, because both files contain the same generation
    batch.
    """
    notes.say(
        "TRL's files do not separate training from evaluation: all rollouts get the split train. The file of a step "
        "with an evaluation holds the completions of the evaluation."
    )
    rewards, why = rewards_of(paths)
    if why:
        notes.say(why)
    previous: Path | None = None
    run = OneRun()
    for path in paths:
        if previous is not None and _same(previous, path):
            notes.count(
                "file was skipped, because it repeats the rollouts of the file before (logged again before new "
                "rollouts were sampled)",
                "files were skipped, because they repeat the rollouts of the file before (logged again before new "
                "rollouts were sampled)",
            )
            continue
        previous = path
        for where, data in parquet_rows(path):
            run.check("train", data["step"], str(path.parent), path)
            yield ImportedRow(_values(data, rewards), data, where)


def _values(data: Mapping[str, Any], rewards: Sequence[str]) -> dict[str, Any]:
    return {
        "split": "train",
        "step": data["step"],
        "prompt": data["prompt"],
        "text": data["completion"],
        "advantage": data.get("advantage"),
        "reward": reward(data, rewards),
    }


def _same(one: Path, other: Path) -> bool:
    """Whether two files have the same rows, apart from the step. Reading stops at the first difference."""
    with pq.ParquetFile(one) as first, pq.ParquetFile(other) as second:
        if first.metadata.num_rows != second.metadata.num_rows or first.schema_arrow.names != second.schema_arrow.names:
            return False
        columns = [name for name in first.schema_arrow.names if name != "step"]
        pairs = zip_longest(first.iter_batches(BATCH, columns=columns), second.iter_batches(BATCH, columns=columns))
        return first.metadata.num_rows > 0 and all(a is not None and b is not None and a.equals(b) for a, b in pairs)
