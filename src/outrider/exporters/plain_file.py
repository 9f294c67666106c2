"""Writes the plain table of rollouts as one Parquet file, which ``outrider report`` and any Parquet reader can open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq

from outrider.exporters.refuse_existing import refuse_existing
from outrider.exporters.source import BATCH, ExportedRollout, ExportPart, as_table
from outrider.importers.notes import Notes
from outrider.importers.plain import PLAIN
from outrider.record.disk import new_file


def write_plain(parts: Sequence[ExportPart], folder: Path, notes: Notes) -> list[Path]:
    """Write all rollouts to ``rollouts.parquet``, with the columns of :data:`outrider.importers.plain.PLAIN`.

    Raises:
        UserError: the file already exists, or cannot be written.
    """
    path = folder / "rollouts.parquet"
    refuse_existing([path])
    with new_file(path) as place, pq.ParquetWriter(place, PLAIN, compression="zstd") as writer:
        for part in parts:
            for rollouts in _batches(part.rollouts):
                lacking = sum(rollout.row["prompt"] is None for rollout in rollouts)
                notes.count("rollout has no prompt", "rollouts have no prompt", lacking)
                writer.write_table(as_table(rollouts))
    return [path]


def _batches(rollouts: Iterator[ExportedRollout]) -> Iterator[list[ExportedRollout]]:
    while batch := list(islice(rollouts, BATCH)):
        yield batch
