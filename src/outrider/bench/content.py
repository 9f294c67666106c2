"""Builds the content of a bench's page: the comparison of the recipes first, then all details in collapsed sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import outrider
from outrider.bench.blocks import BlockCell, apart_from_seeds, block
from outrider.bench.provenance import provenance
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm
from outrider.bench.sections import UNITS, sections
from outrider.bench.tuning_section import tuning
from outrider.bench.verdict import quantities, verdict
from outrider.measure import Interval
from outrider.report.content import CellValue, Figure, Report, Section, Series, Unit
from outrider.report.sections.frontier import interval_series

_TOKENS = "tokens generated in training"
_BANDS = 3  # maximum number of lines in a plot with interval bands


def content(report: BenchReport, environment: Mapping[str, Any]) -> Report:
    """Return the content of the bench's page, for :func:`outrider.report.page.render`."""
    bench = report.bench
    tallies = report.before.end.evaluations[0].tallies
    facts: dict[str, CellValue] = {
        "recipes": len(report.arms),
        "seeds": bench.seeds,
        "budget of a run": f"{bench.budget:,.10g} {UNITS[bench.unit]}",
        "held-out problems": len(tallies),
        "samples of each": tallies[0].samples,
        "Outrider": outrider.__version__,
    }
    made = [_along(report), *sections(report), tuning(report), provenance(report, environment)]
    return Report(
        title=f"Bench of {', '.join(bench.recipes)}",
        facts=facts,
        findings=[],
        checked=[],
        skipped={},
        sections=[section for section in made if section is not None],
        opening=opening(report),
        examined=False,
    )


def opening(report: BenchReport) -> Section:
    """Return the first section of the page: sentences that compare the recipes, a table of pass@1 and pass@k, and a
    plot."""
    sentences = verdict(report)
    if report.failures:
        sentences.append(f"Failed runs, excluded from all numbers: {'; '.join(report.failures)}.")
    names = quantities(report)
    start = [apart_from_seeds(report.value(report.before, q)) for q in names]
    rows: list[list[BlockCell]] = [["before training", *start, *([None] * len(names))]]
    for arm in report.arms:
        changes = [None if arm is report.base else report.against_base(arm, q) for q in names]
        rows.append([arm.name, *(report.value(arm, q) for q in names), *changes])
    columns = [*names, *(f"change of {q}" for q in names)]
    units: dict[str, Unit] = {name: "points" if name.startswith("change") else "percent" for name in columns}
    title = f"Results at the end of the budget, and change from {report.bench.base}"
    table = block("opening-results", title, ["recipe", *columns], rows, units=units)
    figure = _plane(report, names[-1]) if len(names) > 1 else _over_tokens(report, names[0])
    return Section("opening", "Which recipe is ahead", "\n\n".join(sentences), [figure], [table])


def _along(report: BenchReport) -> Section:
    """Plot pass@1 and pass@k over generated tokens."""
    text = "Means over seeds. Bands are 95 % intervals of each recipe by itself; paired changes are more precise."
    figures = [_over_tokens(report, quantity) for quantity in quantities(report)]
    return Section("along", "Along training", text, figures)


def _over_tokens(report: BenchReport, quantity: str) -> Figure:
    start = apart_from_seeds(report.value(report.before, quantity))
    lines = []
    for arm in report.arms:
        points: dict[float, Interval | None] = {0.0: start}
        for i, point in enumerate(arm.points):
            points[float(np.mean(point.tokens))] = apart_from_seeds(report.value(arm, quantity, i))
        lines.append(interval_series(arm.name, {x: found for x, found in points.items() if found is not None}))
    if len(lines) > _BANDS:  # bands of many recipes hide each other
        lines = [replace(line, low=[], high=[]) for line in lines]
    return Figure(f"over-tokens-{quantity}", quantity, "line", _TOKENS, quantity, lines, percent="y")


def _plane(report: BenchReport, largest: str) -> Figure:
    lines = [_path(report, arm, largest) for arm in report.arms]
    note = "From before training to the end of the budget. Two points on the same curve differ only in progress."
    title = f"pass@1 against {largest}"
    return Figure("plane", title, "line", "pass@1", largest, lines, note=note, percent="xy")


def _path(report: BenchReport, arm: Arm, largest: str) -> Series:
    x = [report.value(report.before, "pass@1").value]
    y = [report.value(report.before, largest).value]
    for i in range(len(arm.points)):
        x.append(report.value(arm, "pass@1", i).value)
        y.append(report.value(arm, largest, i).value)
    hover = ["before training", *(f"{point.share:.0%} of the budget" for point in arm.points)]
    return Series(arm.name, x, y, hover=hover)
