"""The section on the calibration of pass rates that were predicted before sampling."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from outrider.arrays import Floats
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import in_percent, series

_KEY = re.compile(r"explore/(.+)/calibration_(\d+)_(rollouts|expected|variance|successes)")
_TEXT = (
    "A planner with wrong predictions spends rollouts on the wrong problems. Rollouts are binned by the pass rate "
    "predicted before sampling. If predictions are calibrated, the observed success rate of a bin equals its "
    "predicted one. Rollouts of a problem share an unknown pass rate, so the interval is wider than a binomial one. "
    "The first step is excluded, because no evidence precedes it."
)
_NOTE = (
    "Intervals are 95 % intervals of the success rate under calibrated predictions (normal); one bin in twenty lies "
    "outside by chance. `z` is the difference in standard deviations."
)


def section(run: RunData) -> Section | None:
    """Compare predicted and observed success rates in bins of predicted rates. The section has one comparison for each
    entry of the recipe's sampling plan (``explore``) that predicts pass rates. Return None if there are no predictions.
    """
    found = {stage: classes_C4 for stage, classes_C4 in _classes(run).items() if len(classes_C4)}
    if not found:
        return None
    figures = [_figure(stage, classes_C4) for stage, classes_C4 in found.items()]
    return Section(
        "calibration", "Calibration of predicted pass rates", _TEXT, figures, [_table(*each) for each in found.items()]
    )


def _classes(run: RunData) -> dict[str, Floats]:
    """Return an array for each entry of the recipe's sampling plan (``explore``) that predicts pass rates. The array
    has one row per bin of predicted rates. The columns are the number of rollouts, the predicted number of successes,
    the variance of this prediction, and the observed number of successes."""
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
    predicted_C, half_C = expected_C / rollouts_C, 1.96 * np.sqrt(variance_C) / rollouts_C
    low_C, high_C = np.maximum(predicted_C - half_C, 0), np.minimum(predicted_C + half_C, 1)
    hover = [f"{rollouts:,.0f} rollouts" for rollouts in rollouts_C]
    points = [
        series("if calibrated", predicted_C, predicted_C, low=low_C.tolist(), high=high_C.tolist()),
        series("observed", predicted_C, successes_C / rollouts_C, hover=hover),
    ]
    title = f"Pass rates predicted by {_named(stage)}"
    return Figure(f"calibration-{stage}", title, "points", "predicted", "observed", points, percent="xy")


def _table(stage: str, classes_C4: Floats) -> TableBlock:
    rows: list[list[CellValue]] = []
    for rollouts, expected, variance, successes in classes_C4.tolist():
        z = (successes - expected) / variance**0.5 if variance else None
        rows.append([int(rollouts), expected / rollouts, successes / rollouts, z])
    columns, units = ["rollouts", "predicted", "observed", "z"], in_percent("predicted", "observed")
    return TableBlock(
        f"calibration-{stage}", f"Calibration by predicted pass rate ({_named(stage)})", columns, rows, _NOTE, units
    )


def _named(stage: str) -> str:
    """Return a stage's name without its position in the recipe.

    >>> _named("0-choose"), _named("choose")
    ('choose', 'choose')
    """
    return stage.partition("-")[2] or stage
