"""The section on the frontier, which shows pass@1 against pass@k over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outrider.errors import UserError
from outrider.measure import Evaluation, Interval, bootstrap_mean, compare, pass_at_k, powers_of_two
from outrider.measure.passk import shown_ks
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock, Unit
from outrider.report.data import RunData
from outrider.report.kind import is_evaluation
from outrider.report.sections.seen import FIRST_STAGE, query

Curve = Mapping[int, Interval]  # by k

_TEXT = (
    "pass@1 is the mean pass rate; pass@k is the probability that at least one of k samples is correct. Training that "
    "only sharpens the policy moves right and down; training that also finds new solutions moves right and up. "
    "Intervals are 95 % bootstrap intervals over problems; they do not cover the seed of the run."
)
_FROM_TRAINING = (
    " Without evaluations, the numbers come from training groups: rollouts of the first stage only, with different "
    "problems at the beginning and at the end. A problem with several groups counts once per group; its groups are "
    "resampled together."
)


def section(run: RunData) -> Section | None:
    """Return a section with plots of pass@1 against pass@k over training and of pass@k curves. A table lists the
    changes from the first to the last evaluation for each difficulty level, paired by problem.

    The numbers come from evaluations. Without evaluations, pass@k is estimated from training groups, early and late in
    training. This estimate uses only rollouts requested by the first entry of the recipe's sampling plan (``explore``).
    It excludes branches, and rollouts with hints or examples in the prompt. The result is None if no problem has two
    verified samples. It is also None for a single evaluation without training, which another section shows.
    """
    points = points_of(run)
    if is_evaluation(run) and len(points) < 2:  # the section `evaluated` shows this evaluation
        return None
    if points:
        first, last = min(points), max(points)
        chosen = {first: "before training" if first == 0 else f"step {first}", last: f"step {last}"}
        figures = [*_plane(points), *_along(points), curves({name: points[step] for step, name in chosen.items()})]
        return Section("frontier", "The frontier", _TEXT, figures, _changes(run.evaluations))
    ends = early_and_late(run)
    if not any(max(curve) > 1 for curve in ends.values()):
        return None
    return Section("frontier", "The frontier", _TEXT + _FROM_TRAINING, [curves(ends)])


def points_of(run: RunData) -> dict[int, Curve]:
    """Return the pass@k values of each evaluation by step, without values that are NaN."""
    points = {step: defined(e.overall.pass_at) for step, e in sorted(run.evaluations.items())}
    return {step: curve for step, curve in points.items() if curve}


def defined(curve: Curve) -> Curve:
    """Return the values of a curve that are not NaN, in order of k."""
    return {k: interval for k, interval in sorted(curve.items()) if not np.isnan(interval.value)}


def _plane(points: Mapping[int, Curve]) -> list[Figure]:
    k = max(points[max(points)])
    path = [(step, curve) for step, curve in points.items() if 1 in curve and k in curve]
    if k == 1 or len(path) < 2:
        return []
    x, y = ([curve[n].value for _, curve in path] for n in (1, k))
    low, high = [curve[k].low for _, curve in path], [curve[k].high for _, curve in path]
    line = Series("along training", x, y, low, high, [f"step {step}" for step, _ in path])
    title = f"pass@1 against pass@{k}"
    return [Figure("frontier-plane", title, "line", "pass@1", f"pass@{k}", [line], percent="xy")]


def _along(points: Mapping[int, Curve]) -> list[Figure]:
    """Plot pass@k over steps for the minimum, the middle and the maximum k."""
    if len(points) < 2:
        return []
    ks = list(points[max(points)])
    lines = []
    for k in sorted({ks[0], ks[len(ks) // 2], ks[-1]}):
        there = {step: curve[k] for step, curve in points.items() if k in curve}
        lines.append(interval_series(f"pass@{k}", there))
    return [Figure("frontier-along", "pass@k along training", "line", "step", "pass@k", lines, percent="y")]


def curves(named: Mapping[str, Curve]) -> Figure:
    """Plot pass@k over k, with one line and interval band per name."""
    lines = [interval_series(name, curve) for name, curve in named.items() if curve]
    return Figure("frontier-curves", "pass@k", "line", "k", "pass@k", lines, x_log=True, percent="y")


def interval_series(name: str, by_x: Mapping[Any, Interval]) -> Series:
    """Convert intervals to a line with a band. The tooltip of each point shows the number of problems."""
    values, low, high, problems = zip(*by_x.values(), strict=True) if by_x else ([],) * 4
    return Series(name, list(by_x), list(values), list(low), list(high), [f"{n} problems" for n in problems])


def _changes(evaluations: Mapping[int, Evaluation]) -> list[TableBlock]:
    """Return the paired differences between the last and the first evaluation, for all problems and by level."""
    if len(evaluations) < 2:
        return []
    first, last = min(evaluations), max(evaluations)
    try:
        result = compare(evaluations[first], evaluations[last])
    except UserError:  # the evaluations have no problem in common, so they cannot be paired
        return []
    ks = shown_ks(result.overall.pass_at)
    body: list[list[CellValue]] = []
    for change in (*result.levels, result.overall):
        changes = [*(change.pass_at[k] for k in ks), change.greedy]
        body.append([change.level or "(none)", change.pass_at[ks[0]].problems, *map(known_interval, changes)])
    names = [f"pass@{k}" for k in ks] + ["greedy"]
    note = f"Step {last} minus step {first} in percentage points, paired by problem, with 95 % intervals."
    units: dict[str, Unit] = dict.fromkeys(names, "points")
    return [
        TableBlock("frontier-changes", "Paired change by training", ["level", "problems", *names], body, note, units)
    ]


def known_interval(interval: Interval) -> Interval | None:
    """Return the interval, or None (an empty table cell) if the interval's value is NaN."""
    return None if np.isnan(interval.value) else interval


def early_and_late(run: RunData) -> dict[str, Curve]:
    """Return pass@k of training groups early and late in training, or of all groups if there is only one step."""
    columns = query(
        run,
        f"""
        SELECT coalesce(phase, 'all') AS phase, problem_id, step, group_id, count(*) AS n, sum(success) AS c FROM seen
        WHERE outcome IN ('correct', 'incorrect', 'unparseable') AND {FIRST_STAGE}
            AND (phase IS NOT NULL OR (SELECT count(*) FROM bins) = 1)
        GROUP BY ALL ORDER BY ALL
        """,
    )
    curves_of = {}
    for phase, name in {"all": "all groups", "early": "first fifth of the steps", "late": "last fifth"}.items():
        n, c, problems = (columns[key][columns["phase"] == phase] for key in ("n", "c", "problem_id"))
        if len(n):
            ks = powers_of_two(int(np.quantile(n, 0.1, method="lower")))
            resamples = max(100, min(1000, 2_000_000 // len(n)))  # the more groups, the fewer resamples are needed
            curves_of[name] = {k: bootstrap_mean(pass_at_k(n, c, k), resamples, problems_P=problems) for k in ks}
    return {name: defined(curve) for name, curve in curves_of.items() if defined(curve)}
