"""The figure of a bench: pass@k against pass@1 during training, and both metrics over generated tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from outrider.bench.crossed import estimate
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
]  # colour-blind safe
_MARKERS = "osD^vPX"


def frontier_figure(report: BenchReport) -> Figure:
    """Plot pass@n (n samples per problem) against pass@1 in a large panel, and each metric over generated tokens in a
    small panel.

    Each recipe has one colour and marker. Error bars are 95 % intervals of the paired difference from the base recipe,
    at the end of the budget. The interval of a recipe's own mean would be wider, since problems differ in difficulty.
    """
    from matplotlib.figure import Figure  # not pyplot, which keeps global state

    figure = Figure(figsize=(12, 6.4), dpi=130, layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.6, 1])
    plane, ones, many = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    largest = f"pass@{report.before.ks[-1]}"
    start = [report.value(report.before, q).value for q in ("pass@1", largest)]
    for number, arm in enumerate(report.arms):
        style = {"color": _COLOURS[number % 7], "marker": _MARKERS[number // 7 % 7]}
        _frontier(plane, report, arm, largest, start, style)
        for axes, quantity, first in ((ones, "pass@1", start[0]), (many, largest, start[1])):
            _over_tokens(axes, report, arm, quantity, first, style)
    plane.plot(*start, "*", color="#666666", markersize=16, label="before training", zorder=4)
    plane.set_xlabel("pass@1 on held-out problems")
    plane.set_ylabel(f"{largest} on held-out problems")
    plane.set_title(loc="left", label="the frontier along training")
    # outside the axes, so that the legend hides no data
    figure.legend(*plane.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for axes, quantity in ((ones, "pass@1"), (many, largest)):
        axes.set_title(loc="left", label=quantity)
        axes.xaxis.set_major_formatter(_millions if axes.get_xlim()[1] >= 2e5 else _whole)  # one unit per axis
    many.set_xlabel("generated tokens")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#EEEEEE", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure


def _millions(x: float, _: float) -> str:
    return f"{x / 1e6:g}M"


def _whole(x: float, _: float) -> str:
    return f"{x:,.0f}"


def _frontier(
    axes: Axes, report: BenchReport, arm: Arm, largest: str, start: list[float], style: dict[str, str]
) -> None:
    along = [[report.value(arm, q, i).value for q in ("pass@1", largest)] for i in range(len(arm.points))]
    x, y = np.array([start, *along]).T
    axes.plot(x, y, color=style["color"], linewidth=1.6, zorder=2)
    axes.plot(x[1:-1], y[1:-1], style["marker"], color=style["color"], markersize=5, zorder=3)
    axes.plot(x[-1], y[-1], style["marker"], color=style["color"], markersize=10, label=arm.name, zorder=4)
    if arm is not report.base:
        one, many = (report.against_base(arm, q) for q in ("pass@1", largest))
        across, up = ((e.low - e.value, e.high - e.value) for e in (one, many))  # NaN draws nothing
        # pass rates are between 0 and 1, even if the interval of a difference over few seeds is wider
        axes.hlines(y[-1], *np.clip(x[-1] + np.array(across), 0, 1), color=style["color"], linewidth=1.2)
        axes.vlines(x[-1], *np.clip(y[-1] + np.array(up), 0, 1), color=style["color"], linewidth=1.2)
    if len(arm.seeds) > 1:
        ends = [[estimate(arm.only([seed]).end.measured(q)).value for q in ("pass@1", largest)] for seed in arm.seeds]
        axes.plot(*np.array(ends).T, ".", color=style["color"], alpha=0.5, markersize=5, zorder=2)


def _over_tokens(axes: Axes, report: BenchReport, arm: Arm, quantity: str, first: float, style: dict[str, str]) -> None:
    lines = [(arm, 1.0, style["marker"])]
    lines += [(arm.only([seed]), 0.25, "") for seed in arm.seeds if len(arm.seeds) > 1]
    for line, alpha, marker in lines:
        x = [0.0, *(float(np.mean(point.tokens)) for point in line.points)]
        y = [first, *(report.value(line, quantity, i).value for i in range(len(line.points)))]
        axes.plot(x, y, marker=marker, color=style["color"], markersize=4, alpha=alpha, linewidth=0.6 + alpha)
