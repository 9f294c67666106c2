"""Checks that the records of a run are complete up to a checkpoint, so that a resumed run has no undetected gap."""

from __future__ import annotations

from typing import NamedTuple

from outrider.errors import UserError
from outrider.runs.folder import RunFolder


class Gap(NamedTuple):
    """The first step with a missing or damaged record, and a sentence about the damage."""

    step: int
    sentence: str


def first_gap(folder: RunFolder, until: int) -> Gap | None:
    """Return the first gap in the metrics and rollouts of steps 1 to ``until``, or None if both are complete.

    Every rollout file is read to verify its checksums, which takes about 5 seconds for a million rollouts.
    """
    gaps = [gap for gap in (_metrics_gap(folder, until), _rollouts_gap(folder, until)) if gap is not None]
    return min(gaps, default=None)


def _metrics_gap(folder: RunFolder, until: int) -> Gap | None:
    there = {int(row["step"]) for row in folder.metrics()}
    missing = next((step for step in range(1, until + 1) if step not in there), None)
    return None if missing is None else Gap(missing, f"metrics.jsonl lacks step {missing}")


def _rollouts_gap(folder: RunFolder, until: int) -> Gap | None:
    there = set(folder.rollouts.steps())
    for step in range(1, until + 1):
        if step not in there:
            return Gap(step, f"rollouts/ lacks the file of step {step}")
        try:
            folder.rollouts.table(step=step)
        except UserError as error:
            return Gap(step, str(error))
    return None
