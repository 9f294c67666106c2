"""Plots the curves of a run: reward, entropy, shares of solved, mixed and unsolved groups, and pass@k before and after
training.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outrider.arrays import Floats
from outrider.record.disk import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MetricRows = Sequence[Mapping[str, float]]
Placed = list[tuple[float, Mapping[str, Any]]]  # pairs of (number of tokens generated before, evaluation)

_BLUE, _ORANGE, _GREEN, _GREY, _RED = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#999999",
    "#D55E00",
)  # colour-blind safe
_SHARES = {"solved": _GREEN, "mixed": _ORANGE, "unsolved": _GREY}


def draw_curves(rows: MetricRows, evaluations: Mapping[int, Mapping[str, Any]], path: Path) -> None:
    """Write :func:`curves_figure` as a PNG, atomically.

    Raises:
        UserError: the file cannot be written.
    """
    image = io.BytesIO()
    curves_figure(rows, evaluations).savefig(image, format="png")
    write_atomically(path, image.getvalue())


def curves_figure(rows: MetricRows, evaluations: Mapping[int, Mapping[str, Any]]) -> Figure:
    """Plot a run's curves in four panels. The x axis is the number of generated tokens in three panels, and k in the
    fourth.

    The x value of an evaluation is the number of tokens generated up to its step (0 before training). Bars and bands
    are intervals. Thin lines show single steps, and thick lines show running means. A curve has a gap where data are
    missing. A panel without any data shows the text "no data".

    Args:
        rows: the rows of ``metrics.jsonl``. Each row has ``step`` and ``tokens`` (cumulative). Optional keys:
            ``reward``, ``entropy``, ``surprisal`` (an entropy estimate), and the shares of groups that are ``solved``,
            ``mixed`` and ``unsolved``.
        evaluations: evaluations by step, from :meth:`outrider.measure.evaluation.Evaluation.to_json`.
    """
    from matplotlib.figure import Figure  # instead of pyplot, which has global state

    figure = Figure(figsize=(11, 7), dpi=130, layout="constrained")
    reward, entropy, shares, pass_at_k = figure.subplots(2, 2).flat
    tokens, placed = _column(rows, "tokens"), _placed(rows, evaluations)
    _reward(reward, rows, tokens, placed)
    _entropy(entropy, rows, tokens)
    _shares(shares, rows, tokens)
    _pass_at_k(pass_at_k, placed)
    last = max(np.nanmax(tokens, initial=0.0), 1.0)
    for axes in (reward, entropy, shares):
        axes.set_xlim(-0.02 * last, 1.02 * last)
        axes.set_xlabel("generated tokens")
        axes.xaxis.set_major_formatter(_short)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        if not axes.has_data():
            axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=_GREY)
    return figure


def pass_at_k_figure(evaluation: Mapping[str, Any]) -> Figure:
    """Plot an evaluation's pass@k against k, with confidence intervals."""
    from matplotlib.figure import Figure  # as above

    figure = Figure(figsize=(5.5, 3.5), dpi=130, layout="constrained")
    axes = figure.subplots()
    _pass_at_k(axes, [(0.0, evaluation)])
    if (legend := axes.get_legend()) is not None:
        legend.remove()  # a single line needs no legend
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _reward(axes: Axes, rows: MetricRows, tokens: Floats, placed: Placed) -> None:
    axes.set_title(loc="left", label="reward in training, pass@1 on held-out problems")
    _line(axes, tokens, _column(rows, "reward"), _BLUE, "reward")
    points = [(x, pass_at[1]) for x, pass_at in ((x, _pass_at(e)) for x, e in placed) if 1 in pass_at]
    if points:
        x, y = [x for x, _ in points], np.array([p for _, p in points])
        bars = np.abs(np.nan_to_num(y[:, 1:] - y[:, :1])).T
        axes.errorbar(x, y[:, 0], bars, fmt="o", color=_RED, capsize=3, label="pass@1", zorder=3)
    if axes.has_data():
        axes.legend(frameon=False, loc="lower right")


def _entropy(axes: Axes, rows: MetricRows, tokens: Floats) -> None:
    axes.set_title(loc="left", label="entropy of the policy (nats per token)")
    entropy, surprisal = _column(rows, "entropy"), _column(rows, "surprisal")
    if np.isfinite(surprisal).any():
        entropy = np.where(np.isnan(entropy), surprisal, entropy)
        axes.set_title(loc="left", label="entropy of the policy, estimated by surprisal (nats per token)")
    _line(axes, tokens, entropy, _BLUE, "entropy")
    axes.set_ylim(0, 1.1 * np.nanmax(entropy, initial=0.0) or 1.0)


def _shares(axes: Axes, rows: MetricRows, tokens: Floats) -> None:
    axes.set_title(loc="left", label="groups: all solved, mixed, none solved")
    columns = [_smooth(_column(rows, name)) for name in _SHARES]
    known = np.isfinite(columns).all(axis=0) & np.isfinite(tokens) if rows else np.zeros(0, np.bool_)
    axes.set_ylim(0, 1)
    if not known.any():
        return
    stack = axes.stackplot(tokens[known], [c[known] for c in columns], colors=list(_SHARES.values()), alpha=0.85)
    axes.legend(stack, _SHARES, frameon=True, loc="upper left", ncols=3)


def _pass_at_k(axes: Axes, placed: Placed) -> None:
    axes.set_title(loc="left", label="pass@k on held-out problems")
    axes.set_xlabel("k")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    first_and_last = placed if len(placed) < 2 else [placed[0], placed[-1]]
    for (tokens, evaluation), colour in zip(first_and_last, (_GREY, _RED), strict=False):
        pass_at = _pass_at(evaluation)
        if not pass_at:
            continue
        ks, values = list(pass_at), np.array(list(pass_at.values()))
        axes.fill_between(ks, values[:, 1], values[:, 2], color=colour, alpha=0.15, linewidth=0)
        label = f"after {_short(tokens)} tokens" if tokens else "before"
        axes.plot(ks, values[:, 0], "o-", color=colour, markersize=4, label=label)
        axes.set_xticks(ks)
    if axes.has_data():
        axes.legend(frameon=False, loc="lower right")


def _placed(rows: MetricRows, evaluations: Mapping[int, Mapping[str, Any]]) -> Placed:
    """Return the evaluations in step order, each with the number of training tokens generated up to its step."""
    placed = []
    for step in sorted(evaluations):
        before = [row["tokens"] for row in rows if row["step"] <= step]
        placed.append((max(before, default=0.0), evaluations[step]))
    return placed


def _pass_at(evaluation: Mapping[str, Any]) -> dict[int, tuple[float, float, float]]:
    """Return pass@k and the bounds of its interval, by k in ascending order. A k for which no problem has enough
    samples is excluded."""
    by_k = {}
    for k, interval in sorted(evaluation["overall"]["pass_at"].items(), key=lambda item: int(item[0])):
        value, low, high = (math.nan if interval[x] is None else interval[x] for x in ("value", "low", "high"))
        if not math.isnan(value):
            by_k[int(k)] = (value, low, high)
    return by_k


def _line(axes: Axes, x: Floats, y: Floats, colour: str, label: str) -> None:
    if np.isfinite(y).any():
        axes.plot(x, y, color=colour, alpha=0.3, linewidth=0.8)
        axes.plot(x, _smooth(y), color=colour, linewidth=1.8, label=label, marker="." if len(y) == 1 else "")


def _column(rows: MetricRows, name: str) -> Floats:
    return np.array([row.get(name, math.nan) for row in rows], dtype=np.float64)


def _smooth(y: Floats) -> Floats:
    """Return the centred running mean, ignoring NaN. The window is a 20th of the run. Windows are shorter at the
    beginning and at the end of the run."""
    half = len(y) // 40
    known = np.isfinite(y)
    totals = np.concatenate([[0.0], np.cumsum(np.where(known, y, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    # differences of cumulative sums need one pass, whatever the window size
    low = np.maximum(np.arange(len(y)) - half, 0)
    high = np.minimum(np.arange(len(y)) + half + 1, len(y))
    with np.errstate(invalid="ignore"):
        return np.where(known, (totals[high] - totals[low]) / (counts[high] - counts[low]), math.nan)


def _short(number: float, _position: int | None = None) -> str:
    """Format a number for an axis tick, such as ``1.2M``. Matplotlib also passes the tick's position."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
