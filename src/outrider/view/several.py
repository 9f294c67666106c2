"""Compares several runs side by side, by their curves and by the problems whose pass rates differ between runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

from outrider.report.content import Figure
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.overview import curves

SHOWN = 50
_RATES = """
SELECT problem_id, any_value(level) AS level, count(*) FILTER (outcome = 'correct') AS correct,
    count(outcome) AS verified
FROM seen WHERE split = 'evaluate' AND step = (SELECT max(step) FROM seen WHERE split = 'evaluate')
GROUP BY problem_id
"""


def names_of(runs: Sequence[OpenedRun]) -> list[str]:
    """Return a unique name for each run. If runs have the same name, all but the first get a number.

    >>> from types import SimpleNamespace as Named
    >>> names_of([Named(name="a"), Named(name="b"), Named(name="a")])
    ['a', 'b', 'a (2)']
    """
    found: list[str] = []
    for run in runs:
        numbered = chain([run.name], (f"{run.name} ({again})" for again in count(2)))
        found.append(next(name for name in numbered if name not in found))
    return found


def curves_together(runs: Sequence[OpenedRun], over: str = "step") -> list[Figure]:
    """Return a plot for each curve that several runs have, with one line per run. pass@k is plotted only for the
    minimum and the maximum k."""
    found: dict[str, Figure] = {}
    for name, run in zip(names_of(runs), runs, strict=True):
        for figure in curves(run, over):
            if figure.kind != "line":
                continue
            for series in figure.series if len(figure.series) == 1 else (figure.series[0], figure.series[-1]):
                whole = len(figure.series) == 1
                id, title = (figure.id, figure.title) if whole else (f"{figure.id}-{series.name}", series.name)
                if all(math.isnan(y) for y in series.y):  # the rollout files lack this metric
                    continue
                of = found.setdefault(id, replace(figure, id=id, title=title, series=[]))
                of.series.append(replace(series, name=name))
    return [figure for figure in found.values() if len(figure.series) > 1]


def problems_apart(runs: Sequence[OpenedRun]) -> tuple[list[tuple[str, str, list[Row | None]]], int]:
    """Return the held-out problems whose pass rates differ most between the runs' last evaluations, and the number of
    all problems with different pass rates.

    Each entry has the problem's id, its difficulty level, and each run's counts of verified and correct rollouts (None
    if the run was not evaluated on the problem). Problems with equal pass rates are excluded. At most ``SHOWN``
    problems are returned.
    """
    rates = [{row["problem_id"]: row for row in run.rows(_RATES)} for run in runs]
    every = {problem: [of.get(problem) for of in rates] for problem in {key for of in rates for key in of}}

    def apart(rows: list[Row | None]) -> float:
        known = [row["correct"] / row["verified"] for row in rows if row and row["verified"]]
        return max(known) - min(known) if len(known) > 1 else -1.0

    shared = {problem: rows for problem, rows in every.items() if apart(rows) > 0}
    ranked = sorted(shared.items(), key=lambda item: (-apart(item[1]), item[0]))
    levels = {problem: next((row["level"] or "" for row in rows if row), "") for problem, rows in ranked}
    return [(problem, levels[problem], rows) for problem, rows in ranked[:SHOWN]], len(ranked)
