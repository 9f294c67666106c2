"""Evaluations of a dump: the same counts per problem that a run of Outrider leaves, taken from plain rollouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.measure import Evaluation, Tally
from outrider.measure.evaluation import of_tallies
from outrider.measure.majority import majority_or_unknown
from outrider.record import StopReason
from outrider.report.data import RunData

_ROWS = (
    "SELECT problem_id, level, split, outcome, answer, stop, tokens, entropy FROM rollouts "
    "WHERE split IN (?, 'greedy') AND step = ? ORDER BY problem_id, member"
)
_CUT = tuple(stop for stop in StopReason if stop.truncates)


def judged_split(run: RunData) -> str:
    """The rollouts that tell how good a policy is: those drawn to evaluate it. In a dump that has none and a single
    step, all there is: it is taken for an evaluation, whatever it calls itself."""
    found = run.ask("SELECT split, count(DISTINCT step) AS steps FROM rollouts GROUP BY split")
    steps = dict(zip(found["split"].tolist(), found["steps"].tolist(), strict=True))
    alone = set(steps) == {"train"} and steps["train"] == 1 and not run.config and not run.metrics
    return "train" if alone else "evaluate"


def evaluations_of(run: RunData) -> Mapping[int, Evaluation]:
    """Evaluations by step: those of a run as it wrote them, those of a dump counted from its rollouts."""
    if run.evaluations:
        return run.evaluations
    split = judged_split(run)
    found = run.ask("SELECT DISTINCT step FROM rollouts WHERE split IN (?, 'greedy') ORDER BY step", [split])
    return {step: _evaluation(run, split, step) for step in found["step"].tolist()}


def _evaluation(run: RunData, split: str, step: int) -> Evaluation:
    columns = run.ask(_ROWS, [split, step])
    problems: dict[str, list[dict[str, Any]]] = {}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        problems.setdefault(row["problem_id"], []).append(row)
    return of_tallies([_tally(problem, rows) for problem, rows in problems.items()])


def _tally(problem: str, rows: Sequence[Mapping[str, Any]]) -> Tally:
    """The counts that :meth:`Tally.of` makes of rollouts; one that was never judged is no scorable sample."""
    sampled, greedy = ([r for r in rows if (r["split"] == "greedy") == wanted] for wanted in (False, True))
    judged, votes = list(filter(_scorable, sampled)), list(map(_vote, filter(_scorable, sampled)))
    right = [r["outcome"] == "correct" for r in judged]
    told = [r for r in sampled if _known(r["entropy"]) and _known(r["tokens"])]
    return Tally(
        problem=problem,
        level=rows[0]["level"] or "",
        samples=len(sampled),
        scorable=len(judged),
        successes=sum(right),
        votes=sum(map(bool, votes)),
        majority=majority_or_unknown(votes, right, list(map(_settled, judged))),
        greedy=float(greedy[0]["outcome"] == "correct") if greedy and _scorable(greedy[0]) else math.nan,
        truncated=sum(r["stop"] in _CUT for r in sampled),
        unparseable=sum(r["outcome"] == "unparseable" for r in sampled),
        timeouts=sum(r["outcome"] == "timeout" for r in rows),
        errors=sum(r["outcome"] == "error" for r in rows),
        tokens=sum(int(r["tokens"]) for r in sampled if _known(r["tokens"])),
        greedy_tokens=sum(int(r["tokens"]) for r in greedy if _known(r["tokens"])),
        entropy_sum=float(sum(r["entropy"] * r["tokens"] for r in told)),
        entropy_tokens=sum(int(r["tokens"]) for r in told),
    )


def _scorable(row: Mapping[str, Any]) -> bool:
    return row["outcome"] in ("correct", "incorrect", "unparseable")


def _vote(row: Mapping[str, Any]) -> str:
    return (row["answer"] or "") if _settled(row) else ""


def _settled(row: Mapping[str, Any]) -> bool:
    return row["outcome"] != "unparseable" and row["stop"] not in _CUT


def _known(value: Any) -> bool:
    return value is not None and value == value
