"""Plots the pass rate of one problem over the steps of a run."""

from __future__ import annotations

import math

from outrider.report.content import Figure, Series
from outrider.view.problem import ProblemHistory

SPLITS = {"train": "training", "evaluate": "evaluations"}
"""Names of the curves by split. view.js uses these names when the user clicks on a curve."""


def pass_rates(history: ProblemHistory) -> list[Figure]:
    """Return a plot of the pass rate in training and in evaluations, with 95 % intervals, and of any predicted pass
    rate.

    The list is empty if fewer than two steps have verdicts.
    """
    series = []
    for split, name in SPLITS.items():
        steps = history.of_split(split)
        if steps:
            rates, low, high = ([_known(getattr(step, end)) for step in steps] for end in ("rate", "low", "high"))
            series.append(Series(name, [step.step for step in steps], rates, low, high))
    predicted = [step for step in history.of_split("train") if step.predicted is not None]
    if not series or max(len(one.x) for one in series) < 2:
        return []
    if predicted:
        series.append(Series("predicted", [step.step for step in predicted], [_known(s.predicted) for s in predicted]))
    unit = "share of correct rollouts per step; band: 95 % Wilson interval of each step"
    return [Figure("pass-rate", "Pass rate", "line", "step", unit, series, y_range=(0.0, 1.0), percent="y")]


def _known(value: float | None) -> float:
    return math.nan if value is None else value
