"""Plots one series from every run's report in the same figure, over generated tokens instead of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.content import Figure, Series
from outrider.report.data import RunData

TOKENS = "tokens generated in training"


def overlay(
    compared: Sequence[ComparedRun],
    figures: Callable[[RunData], Sequence[Figure]],
    name: str,
    id: str,
    title: str,
    y: str,
    percent: str = "",
) -> list[Figure]:
    """Plot the series ``name`` of each run's ``figures``, with one line per run; return no figure if no run has this
    series.

    A series named ``estimated <name>`` is included, and marked as estimated. Runs without token counts are excluded.
    See :class:`Figure` for ``percent``.
    """
    lines = []
    for one in compared:
        if not len(one.tokens_S):
            continue
        for series in (series for figure in figures(one.run) for series in figure.series):
            if series.name in (name, f"estimated {name}"):
                shown = one.name if series.name == name else f"{one.name} (estimated)"
                lines.append(over_tokens(one, shown, series))
    return [Figure(id, title, "line", TOKENS, y, lines, percent=percent)] if lines else []


def over_tokens(one: ComparedRun, name: str, series: Series) -> Series:
    """Return the series under a new name, with the tokens generated up to each step on the x axis."""
    at = [one.tokens_at(step) for step in series.x]
    kept = [i for i, tokens in enumerate(at) if not math.isnan(tokens)]
    chosen = {
        part: [values[i] for i in kept] if (values := getattr(series, part)) else [] for part in ("y", "low", "high")
    }
    return Series(name, [at[i] for i in kept], **chosen, hover=[f"step {series.x[i]:,}" for i in kept])
