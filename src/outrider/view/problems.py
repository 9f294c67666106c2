"""The problems of a run as a list: what each cost, when it was solved first and last, and what evaluations say."""

from __future__ import annotations

from outrider.errors import UserError, nearest
from outrider.view.opened_run import OpenedRun, Row

SHOWN = 100
ORDERS = {
    "lost": "change ASC NULLS LAST, tries_since DESC NULLS LAST, rollouts DESC",
    "gained": "change DESC NULLS LAST, first_success DESC NULLS LAST, rollouts DESC",
    "never solved": "(train_correct + first_correct + last_correct) ASC, rollouts DESC",
    "most rollouts": "rollouts DESC",
    "most tokens": "tokens DESC",
    "latest first success": "first_success DESC NULLS LAST, rollouts DESC",
}
"""Orders of the list, and their SQL."""

_PROBLEMS = """
WITH ends AS (
    SELECT min(step) AS first, max(step) AS last FROM seen WHERE split = 'evaluate'
), each AS (
    SELECT problem_id, any_value(level) AS level, count(*) AS rollouts, coalesce(sum(tokens), 0) AS tokens,
        count(outcome) FILTER (split = 'train') AS train_verified,
        count(*) FILTER (split = 'train' AND outcome = 'correct') AS train_correct,
        count(DISTINCT step) FILTER (split = 'train') AS tries,
        min(step) FILTER (split = 'train' AND outcome = 'correct') AS first_success,
        max(step) FILTER (split = 'train' AND outcome = 'correct') AS last_success,
        max(step) FILTER (split = 'train') AS last_try,
        count(outcome) FILTER (split = 'evaluate' AND step = ends.first) AS first_verified,
        count(*) FILTER (split = 'evaluate' AND step = ends.first AND outcome = 'correct') AS first_correct,
        count(outcome) FILTER (split = 'evaluate' AND step = ends.last) AS last_verified,
        count(*) FILTER (split = 'evaluate' AND step = ends.last AND outcome = 'correct') AS last_correct
    FROM seen, ends GROUP BY problem_id
), since AS (
    SELECT problem_id, count(DISTINCT step) AS tries_since FROM seen JOIN each USING (problem_id)
    WHERE split = 'train' AND step > last_success GROUP BY problem_id
)
SELECT *, CASE WHEN first_verified > 0 AND last_verified > 0 AND (SELECT first < last FROM ends)
    THEN last_correct / last_verified - first_correct / first_verified END AS change
FROM each LEFT JOIN since USING (problem_id)
"""


def problems(run: OpenedRun, order: str, page: int) -> tuple[list[Row], int]:
    """A page of problems in an order, and how many there are.

    ``change``: the pass rate of the last evaluation less that of the first, None without two. ``tries_since``:
    training steps that met the problem after its last success.

    Raises:
        UserError: there is no such order.
    """
    if order not in ORDERS:
        raise UserError(f"problems cannot be listed by {order!r}; {nearest(order, ORDERS)}")
    total = run.kept("problems", lambda: _gathered(run))
    sql = f"SELECT * FROM problems ORDER BY {ORDERS[order]}, problem_id LIMIT {SHOWN} OFFSET {(page - 1) * SHOWN}"
    return run.rows(sql), total


def _gathered(run: OpenedRun) -> int:
    """Make the table ``problems``, and count it."""
    run.rows(f"CREATE OR REPLACE TABLE problems AS {_PROBLEMS}")
    return int(run.rows("SELECT count(*) AS n FROM problems")[0]["n"])
