"""Reads rollouts and their texts from a run or from another framework's files, separately for each split and step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from outrider.errors import UserError
from outrider.importers.plain import PLAIN
from outrider.report.data import RunData
from outrider.report.run import gather, rows_of_files

BATCH = 512  # number of rollouts that are held as Python objects at a time
_OF_A_RUN = ("prompt_ids", "prefix_text", "observations")


class ExportedRollout(NamedTuple):
    """One rollout.

    Attributes:
        row: the rollout's values for the columns of :data:`outrider.importers.plain.PLAIN`; ``prompt`` is None if
            unavailable.
        prefix: the text that the rollout continues. The prefix is "" if the rollout starts at the prompt, and None if
            the prefix of a branch was not recorded.
        observed: the start and end of each environment observation in the rollout's text (without the prefix).
    """

    row: Mapping[str, Any]
    prefix: str | None
    observed: Sequence[tuple[int, int]] = ()


class ExportPart(NamedTuple):
    """The rollouts of one split at one step; ``rollouts`` can be iterated only once."""

    split: str
    step: int
    rollouts: Iterator[ExportedRollout]


class ExportChoice(NamedTuple):
    """The splits and steps to export; an empty field selects all splits or all steps."""

    splits: Sequence[str] = ()
    steps: Sequence[int] = ()


def parts_of(run: RunData, wanted: ExportChoice, tokenizer: Tokenizer | None = None) -> list[ExportPart]:
    """Return one part for each wanted split and step of a run. Damaged files are excluded and named in ``run.notices``.

    Args:
        tokenizer: the tokenizer that decodes the prompts of a run; special tokens are kept. Without a tokenizer,
            prompts are None.

    Raises:
        UserError: there are no rollouts, or a wanted split or step has no rollouts.
    """
    gather(run)
    found = _places(run)
    if not found:
        raise UserError(f"{run.name} holds no rollouts")
    _refuse_unknown("split", wanted.splits, sorted({split for split, _ in found}))
    _refuse_unknown("step", wanted.steps, sorted({step for _, step in found}))
    chosen = [
        place
        for place in found
        if (not wanted.splits or place[0] in wanted.splits) and (not wanted.steps or place[1] in wanted.steps)
    ]
    if not chosen:
        raise UserError(f"{run.name} holds no rollouts of these splits at these steps")
    return [
        ExportPart(split, step, _rollouts(run, split, step, found[split, step], tokenizer)) for split, step in chosen
    ]


def _refuse_unknown(kind: str, wanted: Sequence[Any], known: Sequence[Any]) -> None:
    for one in wanted:
        if one not in known:
            listed = [str(name) for name in known]
            there = ", ".join(listed if len(listed) <= 8 else [*listed[:4], "…", *listed[-3:]])
            raise UserError(f"there are no rollouts of {kind} {one} (there are: {there})")


def _places(run: RunData) -> dict[tuple[str, int], list[str]]:
    """Return the sorted names of the rollout files for each split and step. If the rollouts are in memory, these lists
    are empty.
    """
    source, files = ("rollouts_on_disk", "list(DISTINCT filename)") if run.has("files") else ("rollouts", "[]")
    rows = run.db.execute(f"SELECT split, step, {files} FROM {source} GROUP BY ALL ORDER BY ALL").fetchall()
    return {(split, step): sorted(names) for split, step, names in rows}


def _rollouts(
    run: RunData, split: str, step: int, files: Sequence[str], tokenizer: Tokenizer | None
) -> Iterator[ExportedRollout]:
    if not run.has("traces"):
        source = f"({rows_of_files(run, files, PLAIN.names)})" if files else "rollouts"
        for row in _rows(run, source, split, step):
            yield ExportedRollout({name: row[name] for name in PLAIN.names}, None if row["parent"] else "")
        return
    for file in files:
        beside = _Beside(Path(file), tokenizer)
        for row in _rows(run, f"({rows_of_files(run, [file], PLAIN.names)})", split, step):
            if row["context"] != "replayed":  # sampled at an earlier step, whose file has the rollout
                yield beside.joined(row)


def _rows(run: RunData, source: str, split: str, step: int) -> Iterator[dict[str, Any]]:
    found = run.db.execute(f"SELECT * FROM {source} WHERE split = ? AND step = ?", [split, step])
    names = [column[0] for column in found.description or ()]
    while rows := found.fetchmany(BATCH):
        yield from (dict(zip(names, row, strict=True)) for row in rows)


class _Beside:
    """The columns of a run's rollout file that :data:`PLAIN` lacks: prompt token ids, prefixes and observations."""

    def __init__(self, file: Path, tokenizer: Tokenizer | None) -> None:
        there = pq.read_schema(file).names
        table = pq.read_table(file, columns=[name for name in _OF_A_RUN if name in there])
        self._prefixes, self._tokenizer = table["prefix_text"], tokenizer
        self._observations = table["observations"] if "observations" in there else None
        lists = table["prompt_ids"].combine_chunks()
        self._ids, self._ends = lists.values.to_numpy(), lists.offsets.to_numpy()
        self._prompts: dict[bytes, str] = {}

    def joined(self, row: dict[str, Any]) -> ExportedRollout:
        place = row["file_row_number"]
        values = {name: row[name] for name in PLAIN.names} | {"prompt": self._prompt(place)}
        said = [] if self._observations is None else self._observations[place].as_py()
        spans = [(one["begin"], one["end"]) for one in said if one["end"] > one["begin"]]
        return ExportedRollout(values, self._prefixes[place].as_py(), spans)

    def _prompt(self, place: int) -> str | None:
        if self._tokenizer is None:
            return None
        ids = np.asarray(self._ids[self._ends[place] : self._ends[place + 1]])
        key = ids.tobytes()
        if key not in self._prompts:
            self._prompts[key] = self._tokenizer.decode(ids.tolist(), skip_special_tokens=False)
        return self._prompts[key]


def as_table(rollouts: Sequence[ExportedRollout]) -> pa.Table:
    """Convert rollouts to a table with the columns of :data:`~outrider.importers.plain.PLAIN`, one row per rollout."""
    return pa.Table.from_pylist([dict(rollout.row) for rollout in rollouts], schema=PLAIN)
