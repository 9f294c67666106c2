"""The section on credit, which shows the learning signal (advantages) by a group's success rate."""

from __future__ import annotations

import numpy as np

from outrider.measure.difficulty import Weights, cumulative_advantage
from outrider.report.content import Figure, Section, Series, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import FIRST_STAGE, cell, in_percent, known, one, query, series

_TEXT = (
    "The weight of a group is the sum of its absolute advantages. With the group mean as baseline, and equal group "
    "sizes, it is largest at a success rate of one half and zero at 0 and 1. The hardest solvable problems, which "
    "determine pass@k, then have the least weight. Allocation and shaping change this curve; the figure shows the "
    "measured one."
)


def section(run: RunData) -> Section | None:
    """Return a section with the sum of absolute advantages by a group's success rate, and the share of positive
    advantages.

    A group's success rate counts only rollouts requested by the first entry of the recipe's sampling plan
    (``explore``). Branches, and rollouts with hints or examples in the prompt, are excluded from this rate. The sum of
    absolute advantages includes all rollouts that were trained on. The result is None if there are no advantages.
    """
    if not one(query(run, "SELECT count(advantage) AS n FROM seen WHERE isfinite(advantage)"))["n"]:
        return None
    weights = {name: _weights(run, phase) for phase, name in _PHASES.items()}
    known = {name: item for name, item in weights.items() if item is not None}
    tables = [_table(known["all steps"])] if "all steps" in known else []
    return Section("credit", "Learning signal by success rate", _TEXT, [*_shape(known), *_signs(run)], tables)


_PHASES = {"TRUE": "all steps", "phase = 'early'": "first fifth of the steps", "phase = 'late'": "last fifth"}


def _weights(run: RunData, which: str) -> Weights | None:
    columns = query(
        run,
        f"""
        SELECT (hash(step, group_id) >> 1)::BIGINT AS code, (hash(problem_id) >> 1)::BIGINT AS problem, success,
            CASE WHEN unused = '' THEN advantage ELSE 0 END AS advantage,
            {FIRST_STAGE} AS first
        FROM seen WHERE {which}
        """,
    )
    scorable = np.asarray(columns["success"], dtype=np.float64)
    counted = np.asarray(columns["first"], dtype=bool)
    if not (counted & ~np.isnan(scorable)).any():
        return None
    size = int(np.median(np.unique(columns["code"][counted], return_counts=True)[1]))
    return cumulative_advantage(
        columns["code"], scorable, columns["advantage"], counted, _bins(size), columns["problem"]
    )


def _bins(size: int) -> int:
    """Return the number of bins for success rates of groups with ``size`` rollouts. The number is even, so that 1/2 is
    the border between two bins. In small groups, each number of successes has its own bin."""
    if size > 16:
        return 8
    return size if size % 2 == 0 else 2 * size


def _label(low: float, high: float) -> str:
    if low == high:
        return f"{100 * low:.0f} %"
    return f"up to {100 * high:.0f} %" if high < 1 else "below 100 %"


def _shape(known: dict[str, Weights]) -> list[Figure]:
    lines = []
    for name, w in known.items():
        there = w.groups_B > 0
        place = np.where(w.high_B < 1, w.high_B, (w.low_B + w.high_B) / 2)[there]
        half = 1.96 * w.error_B[there]
        weight = w.weight_B[there]
        ends = {"low": (weight - half).tolist(), "high": (weight + half).tolist()}
        hover = [f"{groups} groups" for groups in w.groups_B[there].tolist()]
        lines.append(series(name, place, weight, hover=hover, **ends))
    note = "Bars are 95 % intervals of a mean over groups, clustered by problem."
    title = "Weight of a group by success rate"
    x, y = "success rate in the first stage", "sum of |advantage|"
    return [Figure("credit-shape", title, "line", x, y, lines, note=note, percent="x")]


def _table(w: Weights) -> TableBlock:
    groups = w.groups_B / max(1, w.groups_B.sum())
    body = [
        [
            _label(low, high),
            int(w.groups_B[i]),
            float(groups[i]),
            *(cell(column[i]) for column in (w.size_B, w.weight_B, w.share_B)),
        ]
        for i, (low, high) in enumerate(zip(w.low_B, w.high_B, strict=True))
        if w.groups_B[i]
    ]
    columns = ["success", "groups", "share of groups", "rollouts per group", "weight per group", "share of weight"]
    note = f"{w.unassigned:,} rollouts have no advantage." if w.unassigned else ""
    units = in_percent("share of groups", "share of weight")
    return TableBlock("credit-table", "Learning signal by success rate", columns, body, note, units)


def _signs(run: RunData) -> list[Figure]:
    """Plot the sum of the positive advantages as a share of the sum of all absolute advantages. One line counts each
    rollout once; the other, if token counts are known, weights rollouts by their tokens."""
    columns = query(
        run,
        """
        SELECT upto, sum(greatest(advantage, 0)) / nullif(sum(abs(advantage)), 0) AS rollouts,
            sum(greatest(advantage, 0) * tokens) / nullif(sum(abs(advantage) * tokens), 0) AS tokens
        FROM seen WHERE unused = '' AND isfinite(advantage) GROUP BY upto ORDER BY upto
        """,
    )
    names = {"rollouts": "per rollout", "tokens": "per token"}
    lines: list[Series] = [series(names[key], columns["upto"], columns[key]) for key in names if known(columns[key])]
    if not lines:
        return []
    title = "Positive share of the absolute advantages"
    return [Figure("credit-signs", title, "line", "step", "positive share", lines, y_range=(0.0, 1.0), percent="y")]
