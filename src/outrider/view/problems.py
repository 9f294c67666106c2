"""Computes the list of a run's problems, with the status, cost, and first and last success of each problem."""

from __future__ import annotations

from typing import NamedTuple

from outrider.report.data import SAMPLED
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.problem_filter import FILTERS, KINDS, ORDERS, USES, ProblemFilter

SHOWN = 100
_MOST_LEVELS = 40  # with more levels, the level filter is a text field instead of a list
_DRAWN = f"split <> 'greedy' AND {SAMPLED}"
# problems are ranked within each use, so that trained and held-out problems alternate in a list with ties
_PROBLEMS = f"""
WITH each AS (
    SELECT problem_id, coalesce(any_value(nullif(level, '')), 'none') AS level,
        count(*) FILTER ({_DRAWN}) AS rollouts, sum(tokens) FILTER ({_DRAWN}) AS tokens,
        CASE WHEN bool_and(split <> 'train') THEN 'held out' WHEN bool_and(split = 'train') THEN 'trained on'
            ELSE 'trained on and evaluated' END AS use
    FROM seen GROUP BY problem_id
), rates AS (
    SELECT problem_id, split, step, count(*) FILTER (outcome = 'correct') / count(outcome) AS rate
    FROM seen WHERE outcome IS NOT NULL AND {_DRAWN} GROUP BY ALL
), dated AS (
    SELECT *, max(CASE WHEN rate > 0 THEN step END) OVER (PARTITION BY problem_id, split) AS last_success FROM rates
), measured AS (
    SELECT problem_id, split, count(*) AS steps, arg_min(rate, step) AS first_rate, max(rate) AS best_rate,
        arg_max(rate, step) AS last_rate, min(step) FILTER (rate > 0) AS first_success,
        any_value(last_success) AS last_success, count(*) FILTER (step > last_success) AS steps_since
    FROM dated GROUP BY problem_id, split QUALIFY row_number() OVER (PARTITION BY problem_id ORDER BY split) = 1
)
SELECT *, CASE WHEN steps > 1 THEN last_rate - first_rate END AS change,
    CASE WHEN steps IS NULL THEN 'not verified' WHEN best_rate = 0 THEN 'never solved' WHEN last_rate = 0 THEN 'lost'
        WHEN first_rate = 0 THEN 'newly solved' ELSE 'still solved' END AS kind,
    row_number() OVER (PARTITION BY use ORDER BY rollouts DESC, problem_id) AS rank
FROM each LEFT JOIN measured USING (problem_id)
"""


class ProblemList(NamedTuple):
    """A page of problems.

    Attributes:
        rows: problems with their numbers. ``split`` says which rollouts determine ``steps``, pass rates and successes:
            those of evaluations if the problem was evaluated, otherwise those of training. ``steps`` is the number of
            steps in which rollouts of the problem were verified. ``change`` is the last pass rate minus the first, or
            None if there is only one step. ``steps_since`` is the number of steps after the last success.
        total: number of selected problems.
        counts: for each filter, its possible values. Each value has the number of problems that it would select
            together with the other active filters. The list is empty for a filter with too many values. A filter with
            only one value is excluded.
    """

    rows: list[Row]
    total: int
    counts: dict[str, list[tuple[str, int]]]

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // SHOWN))


def problems(run: OpenedRun, chosen: ProblemFilter) -> ProblemList:
    """Return a page of the selected problems. Greedy rollouts do not count."""
    values = run.kept("problems", lambda: _gathered(run))
    where, of = chosen.condition()
    rows = run.rows(
        f"SELECT * FROM problems WHERE {where} ORDER BY {ORDERS[chosen.order]}, rank, problem_id "
        f"LIMIT {SHOWN} OFFSET {(chosen.page - 1) * SHOWN}",
        of,
    )
    total = run.rows(f"SELECT count(*) AS n FROM problems WHERE {where}", of)[0]["n"]
    counts = {name: _counts(run, chosen, name, known) for name, known in values.items()}
    return ProblemList(rows, total, counts)


def _counts(run: OpenedRun, chosen: ProblemFilter, name: str, known: list[str]) -> list[tuple[str, int]]:
    where, of = chosen.condition(without=name)
    rows = run.rows(f'SELECT "{name}" AS value, count(*) AS n FROM problems WHERE {where} GROUP BY 1', of)
    there = {row["value"]: row["n"] for row in rows}
    return [(value, there.get(value, 0)) for value in known]


def _gathered(run: OpenedRun) -> dict[str, list[str]]:
    """Create the table ``problems``, and return the ordered values of each filter that has several values."""
    run.rows(f"CREATE OR REPLACE TABLE problems AS {_PROBLEMS}")
    found: dict[str, list[str]] = {}
    for name in FILTERS:
        rows = run.rows(f'SELECT DISTINCT "{name}" AS value FROM problems ORDER BY 1 LIMIT {_MOST_LEVELS + 1}')
        values = [row["value"] for row in rows]
        if len(values) > 1:
            found[name] = values if len(values) <= _MOST_LEVELS else []
    if "use" in found:
        found["use"].sort(key=[*USES].index)
    there = {row["kind"] for row in run.rows("SELECT DISTINCT kind FROM problems")}
    found.pop("kind", None)
    if there != {"not verified"}:  # keep kinds without problems, since "no problem was lost" is informative
        found["kind"] = [kind for kind in KINDS if kind in there or kind != "not verified"]
    return {name: found[name] for name in FILTERS if name in found}
