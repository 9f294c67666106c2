"""What stages believed of problems before they drew rollouts of them, against what came."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from outrider.arrays import Floats
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import in_percent, series

_KEY = re.compile(r"explore/(.+)/told_(\d+)_(rollouts|expected|variance|successes)")
_TEXT = (
    "A planner that expects the wrong pass rates spends on the wrong problems. Each rollout is put into a class by "
    "the pass rate that was believed of its problem before it was drawn; of a class, as many should succeed as was "
    "believed. Rollouts of a problem share a pass rate that nobody knows, so the interval is wider than that of as "
    "many coins. The first step is excluded: nothing was known before it."
)
_NOTE = (
    "The interval is that of successes if what was believed is right (normal, 95 %); of twenty classes one lies "
    "outside. `apart` counts standard deviations."
)


def section(run: RunData) -> Section | None:
    """Believed against seen, by class, of every stage that says so; None where none does."""
    found = {stage: classes_C4 for stage, classes_C4 in _told(run).items() if len(classes_C4)}
    if not found:
        return None
    figures = [_figure(stage, classes_C4) for stage, classes_C4 in found.items()]
    return Section("belief", "What planners believed", _TEXT, figures, [_table(*each) for each in found.items()])


def _told(run: RunData) -> dict[str, Floats]:
    """For each stage rollouts, expected successes, their variance and successes: a row for each class with rollouts."""
    places = {match: key for key in run.metrics if (match := _KEY.fullmatch(key))}
    later = run.metrics["step"] > 1 if "step" in run.metrics else slice(None)
    sums: dict[str, dict[int, dict[str, float]]] = {}
    for match, key in places.items():
        stage, place, name = match[1], int(match[2]), match[3]
        sums.setdefault(stage, {}).setdefault(place, {})[name] = float(np.nansum(run.metrics[key][later]))
    return {stage: _rows(classes) for stage, classes in sums.items()}


def _rows(classes: Mapping[int, Mapping[str, float]]) -> Floats:
    names = ("rollouts", "expected", "variance", "successes")
    rows = [[one[name] for name in names] for _, one in sorted(classes.items()) if one["rollouts"]]
    return np.array(rows, np.float64).reshape(-1, 4)


def _figure(stage: str, classes_C4: Floats) -> Figure:
    rollouts_C, expected_C, variance_C, successes_C = classes_C4.T
    believed_C, half_C = expected_C / rollouts_C, 1.96 * np.sqrt(variance_C) / rollouts_C
    low_C, high_C = np.maximum(believed_C - half_C, 0), np.minimum(believed_C + half_C, 1)
    hover = [f"{rollouts:,.0f} rollouts" for rollouts in rollouts_C]
    points = [
        series("if it is right", believed_C, believed_C, low=low_C.tolist(), high=high_C.tolist()),
        series("seen", believed_C, successes_C / rollouts_C, hover=hover),
    ]
    title = f"Pass rates as {_named(stage)} believed them"
    return Figure(f"belief-{stage}", title, "points", "believed", "solved", points, percent="xy")


def _table(stage: str, classes_C4: Floats) -> TableBlock:
    rows: list[list[CellValue]] = []
    for rollouts, expected, variance, successes in classes_C4.tolist():
        apart = (successes - expected) / variance**0.5 if variance else None
        rows.append([int(rollouts), expected / rollouts, successes / rollouts, apart])
    columns, units = ["rollouts", "believed", "solved", "apart"], in_percent("believed", "solved")
    return TableBlock(f"belief-{stage}", f"By what {_named(stage)} believed", columns, rows, _NOTE, units)


def _named(stage: str) -> str:
    """A stage without its place in the recipe.

    >>> _named("0-choose"), _named("choose")
    ('choose', 'choose')
    """
    return stage.partition("-")[2] or stage
