"""The section on solved, mixed and unsolved groups: over time, by level, and for problems that are sampled in several
steps."""

from __future__ import annotations

import numpy as np

from outrider.report.content import CellValue, Figure, RolloutsOf, Section, TableBlock
from outrider.report.data import Columns, RunData
from outrider.report.sections.seen import KINDS, in_percent, one, query, rows, series, shares, split

_SHOWN = 20  # maximum number of problems in a table

_TEXT = (
    "A group is the set of rollouts of one problem in one step. With a group baseline, only mixed groups, with "
    "successes and failures, have a signal. If the share of solved groups grows, use harder problems; if unsolved "
    "groups persist, use more rollouts or another strategy for them."
)


def section(run: RunData) -> Section | None:
    """Return a section on the kinds of groups (solved, mixed, unsolved), the numbers of problems sampled and solved,
    repeated problems, and problems without success.

    The result is None if no rollout was verified.
    """
    if not one(query(run, "SELECT count(kind) AS verified FROM groups"))["verified"]:
        return None
    tables = [by_level(run), _again(run), without_success(run)]
    return Section("groups", "Solved, mixed, unsolved", _TEXT, [*kinds(run), *_coverage(run)], [t for t in tables if t])


def kinds(run: RunData) -> list[Figure]:
    """Plot the shares of solved, mixed and unsolved groups along training. Return no figure if no rollout was
    verified."""
    columns = query(
        run, "SELECT upto, kind, count(*) AS n FROM groups WHERE kind IS NOT NULL GROUP BY upto, kind ORDER BY upto"
    )
    stack = shares(columns, "kind", "n", KINDS)
    if not stack:
        return []
    title, y = "Groups by outcome", "share of groups"
    return [Figure("groups-kinds", title, "stack", "step", y, stack, y_range=(0.0, 1.0), percent="y")]


def _coverage(run: RunData) -> list[Figure]:
    """Plot the numbers of problems sampled and solved up to each step. Return no figure for fewer than two steps."""
    columns = query(
        run,
        "SELECT min(upto) AS met, min(upto) FILTER (successes > 0) AS found FROM groups WHERE kind IS NOT NULL "
        "GROUP BY problem_id",
    )
    at = np.unique(query(run, "SELECT DISTINCT upto FROM bins")["upto"])
    if len(at) < 2:
        return []
    met, solved = (np.sort(columns[name][~np.isnan(columns[name].astype(float))]) for name in ("met", "found"))
    lines = [
        series("sampled", at, np.searchsorted(met, at, side="right")),
        series("solved at least once", at, np.searchsorted(solved, at, side="right")),
    ]
    note = "The gap between the lines is the number of problems sampled but never solved."
    return [
        Figure("groups-coverage", "Problems sampled and problems solved", "line", "step", "problems", lines, note=note)
    ]


def by_level(run: RunData) -> TableBlock | None:
    """Return a table with the shares of solved, mixed and unsolved groups and the success rate for each difficulty
    level, or None if problems have no levels."""
    data = query(
        run,
        """
        SELECT level, count(DISTINCT problem_id) AS problems, count(*) AS groups,
            avg((kind = 'solved')::INT) AS solved, avg((kind = 'mixed')::INT) AS mixed,
            avg((kind = 'unsolved')::INT) AS unsolved, sum(successes) / sum(verified) AS success, avg(n) AS rollouts
        FROM groups WHERE kind IS NOT NULL AND level IS NOT NULL AND level <> '' GROUP BY level
        ORDER BY try_cast(regexp_extract(level, '[0-9]+') AS BIGINT), level
        """,
    )
    if not len(data["level"]):
        return None
    columns = ["level", "problems", "groups", "solved", "mixed", "unsolved", "success", "rollouts per group"]
    units = in_percent("solved", "mixed", "unsolved", "success")
    return TableBlock("groups-levels", "By level", columns, rows(data), units=units)


def _again(run: RunData) -> TableBlock | None:
    """For problems sampled in several steps, cross-tabulate the kind (solved, mixed or unsolved) of the first group and
    of the last group."""
    columns = query(
        run,
        """
        SELECT before, after, count(*) AS n FROM (
            SELECT arg_min(kind, step) AS before, arg_max(kind, step) AS after
            FROM groups WHERE kind IS NOT NULL GROUP BY problem_id HAVING count(DISTINCT step) > 1
        ) GROUP BY before, after
        """,
    )
    if not len(columns["n"]):
        return None
    counts = {(b, a): int(n) for b, a, n in zip(columns["before"], columns["after"], columns["n"], strict=True)}
    body: list[list[CellValue]] = [[f"first {b}", *(counts.get((b, a), 0) for a in KINDS)] for b in KINDS]
    note = "Problems with groups in several steps, by the kinds of their first and their last group."
    return TableBlock(
        "groups-again", "First and last group of each problem", ["", *(f"last {a}" for a in KINDS)], body, note
    )


def without_success(run: RunData) -> TableBlock | None:
    """Return a table of the problems without any success. Problems with the most rollouts come first.

    For training, only problems that were sampled more than once are included.

    A verifier timeout or error does not count as a failure, since the response was not verified.
    """
    visits = 2 if split(run) == "train" else 1
    data = query(
        run,
        f"""
        SELECT problem_id, any_value(level) AS level, count(*) AS visits, sum(scorable) AS rollouts,
            sum(tokens)::DOUBLE AS tokens, 1 - pow(0.05, 1 / sum(scorable)) AS at_most, max(step) AS step,
            count(*) OVER () AS dead
        FROM groups WHERE scorable > 0 GROUP BY problem_id
        HAVING sum(successes) = 0 AND count(DISTINCT step) >= {visits}
        ORDER BY sum(n) DESC, problem_id LIMIT {_SHOWN}
        """,
    )
    if not len(data["problem_id"]):
        return None
    note, drawn = _dead_note(data), split(run)
    body: list[list[CellValue]] = [
        [RolloutsOf(problem, "", drawn, int(step)), *rest] for problem, *rest, step, _ in rows(data)
    ]
    columns = ["problem", "level", "visits", "rollouts", "tokens", "pass rate, upper bound"]
    units = in_percent("pass rate, upper bound")
    return TableBlock("groups-dead", "Problems without any success", columns, body, note, units)


def _dead_note(columns: Columns) -> str:
    dead = int(columns["dead"][0])
    shown = f"The {_SHOWN} of {dead:,} problems with the most rollouts. " if dead > _SHOWN else ""
    return f"{shown}The last column is the upper 95 % confidence bound of the pass rate: 1 - 0.05^(1/rollouts)."
