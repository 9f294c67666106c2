"""Computes evaluations from another framework's rollouts, in the same format as the evaluations of an Outrider run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.measure import Evaluation, Tally
from outrider.measure.evaluation import of_tallies
from outrider.measure.tally import TallyEntry
from outrider.record import StopReason
from outrider.report.data import RunData

_ROWS = (
    "SELECT problem_id, level, test_set, split, outcome, answer, stop, tokens, entropy FROM rollouts "
    "WHERE split IN (?, 'greedy') AND step = ? ORDER BY problem_id, member"
)
_CUT = tuple(stop for stop in StopReason if stop.truncates)


def verified_split(run: RunData) -> str:
    """Return the split whose rollouts are used as an evaluation. This split is ``evaluate``. It is ``train`` if another
    framework's files contain only training rollouts of a single step."""
    columns = run.query("SELECT split, count(DISTINCT step) AS steps FROM rollouts GROUP BY split")
    steps = dict(zip(columns["split"].tolist(), columns["steps"].tolist(), strict=True))
    alone = set(steps) == {"train"} and steps["train"] == 1 and not run.config and not run.metrics
    return "train" if alone else "evaluate"


def evaluations_of(run: RunData) -> Mapping[int, Evaluation]:
    """Return the run's recorded evaluations, keyed by step. If there are none, compute evaluations from the run's
    rollouts."""
    if run.evaluations:
        return run.evaluations
    split = verified_split(run)
    columns = run.query("SELECT DISTINCT step FROM rollouts WHERE split IN (?, 'greedy') ORDER BY step", [split])
    return {step: _evaluation(run, split, step) for step in columns["step"].tolist()}


def _evaluation(run: RunData, split: str, step: int) -> Evaluation:
    columns = run.query(_ROWS, [split, step])
    problems: dict[str, list[dict[str, Any]]] = {}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        problems.setdefault(row["problem_id"], []).append(row)
    return of_tallies([_tally(problem, rows) for problem, rows in problems.items()])


def _tally(problem: str, rows: Sequence[Mapping[str, Any]]) -> Tally:
    sampled, greedy = ([r for r in rows if (r["split"] == "greedy") == wanted] for wanted in (False, True))
    labels = rows[0]["level"] or "", rows[0]["test_set"] or ""
    return Tally.count(problem, labels[0], list(map(_entry, sampled)), list(map(_entry, greedy)), labels[1])


def _entry(row: Mapping[str, Any]) -> TallyEntry:
    tokens = int(row["tokens"]) if _known(row["tokens"]) else 0
    nats = float(row["entropy"] * row["tokens"]) if tokens and _known(row["entropy"]) else 0.0
    counted = tokens if _known(row["entropy"]) else 0
    return TallyEntry(row["outcome"], row["answer"] or "", row["stop"] in _CUT, tokens, nats, counted)


def _known(value: Any) -> bool:
    return value is not None and value == value
