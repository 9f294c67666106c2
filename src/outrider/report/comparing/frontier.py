"""Plots pass@k after training, and the course of pass@1 and pass@k in training, with all runs in the same figure."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.overlay import TOKENS, over_tokens
from outrider.report.content import Figure, Section, Series
from outrider.report.sections.frontier import Curve, interval_series, points_of

_TEXT = (
    "pass@1 is the mean pass rate; pass@k is the probability that at least one of k samples is correct. A curve that "
    "starts higher and ends lower belongs to a sharpened policy that lost coverage. Bands are 95 % bootstrap "
    "intervals over problems, each run by itself. Use the paired intervals above to see whether runs differ."
)


def section(compared: Sequence[ComparedRun]) -> Section | None:
    """Plot pass@k over k, pass@1 against pass@k, and each of pass@1 and pass@k over generated tokens, for all runs. The
    result is None if there are no evaluations."""
    curves = {one.name: points_of(one.run) for one in compared if one.step is not None}
    ends = [series for one in compared if (series := _end(one, curves)) is not None]
    if not ends:
        return None
    figures = [Figure("curves", "pass@k", "line", "k", "pass@k", ends, x_log=True, percent="y")]
    k = max(set.intersection(*(set(along[max(along)]) for along in curves.values() if along)), default=1)
    if k > 1:
        figures += _plane(curves, k)
    trained = [one for one in compared if len(one.tokens_S) and len(curves.get(one.name, {})) > 1]
    for each in sorted({1, k}):
        lines = [_over_tokens(one, curves[one.name], each) for one in trained]
        if lines:
            title, y = f"pass@{each} along training", f"pass@{each}"
            figures.append(Figure(f"pass-{each}", title, "line", TOKENS, y, lines, percent="y"))
    return Section("frontier", "The frontier", _TEXT, figures)


def _end(one: ComparedRun, curves: dict[str, dict[int, Curve]]) -> Series | None:
    curve = curves.get(one.name, {}).get(-1 if one.step is None else one.step)
    return interval_series(one.name, curve) if curve else None


def _plane(curves: dict[str, dict[int, Curve]], k: int) -> list[Figure]:
    lines = []
    for name, along in curves.items():
        path = [(step, curve) for step, curve in along.items() if 1 in curve and k in curve]
        x, y = ([curve[n].value for _, curve in path] for n in (1, k))
        lines.append(Series(name, x, y, hover=[f"step {step:,}" for step, _ in path]))
    title = f"pass@1 against pass@{k}"
    note = "One point per evaluation along training: right is a higher pass@1, up is a higher coverage."
    return [Figure("plane", title, "line", "pass@1", f"pass@{k}", lines, note=note, percent="xy")]


def _over_tokens(one: ComparedRun, along: dict[int, Curve], k: int) -> Series:
    there = [(step, curve[k]) for step, curve in along.items() if k in curve]
    return over_tokens(one, one.name, Series("", [step for step, _ in there], [i.value for _, i in there]))
