"""The problems of a run as a list: what each cost, when it was solved first and last, and what evaluations say."""

from __future__ import annotations

from outrider.errors import UserError, nearest
from outrider.report.data import SAMPLED
from outrider.view.opened_run import OpenedRun, Row

SHOWN = 100
ORDERS = {
    "lost": "lost DESC NULLS LAST, tries_since DESC NULLS LAST, rollouts DESC",
    "gained": "change DESC NULLS LAST, first_success DESC NULLS LAST, rollouts DESC",
    "never solved": "(verified > 0 AND correct = 0) DESC, rollouts DESC",
    "most rollouts": "rollouts DESC",
    "most tokens": "tokens DESC",
    "latest first success": "first_success DESC NULLS LAST, rollouts DESC",
}
"""Orders of the list, and their SQL."""

_PROBLEMS = f"""
WITH each AS (
    SELECT problem_id, any_value(level) AS level, count(*) AS rollouts, sum(tokens) AS tokens,
        count(outcome) AS verified, count(*) FILTER (outcome = 'correct') AS correct,
        count(outcome) FILTER (split = 'train') AS train_verified,
        count(*) FILTER (split = 'train' AND outcome = 'correct') AS train_correct,
        count(DISTINCT step) FILTER (split = 'train') AS tries,
        min(step) FILTER (split = 'train' AND outcome = 'correct') AS first_success,
        max(step) FILTER (split = 'train' AND outcome = 'correct') AS last_success,
        min(step) FILTER (split = 'evaluate' AND outcome = 'correct') AS first_evaluated,
        max(step) FILTER (split = 'evaluate' AND outcome = 'correct') AS last_evaluated
    FROM seen WHERE {SAMPLED} GROUP BY problem_id
), since AS (
    SELECT problem_id, count(DISTINCT step) AS tries_since FROM seen JOIN each USING (problem_id)
    WHERE split = 'train' AND step > last_success GROUP BY problem_id
), rates AS (
    SELECT problem_id, step, count(*) FILTER (outcome = 'correct') / count(outcome) AS rate
    FROM seen WHERE split = 'evaluate' AND outcome IS NOT NULL AND {SAMPLED} GROUP BY ALL
), evaluated AS (
    SELECT problem_id, arg_min(rate, step) AS first_rate, arg_max(rate, step) AS last_rate,
        count(*) AS evaluations, max(rate) AS best_rate
    FROM rates GROUP BY problem_id
)
SELECT *, CASE WHEN evaluations > 1 THEN last_rate - first_rate END AS change,
    CASE WHEN evaluations > 1 THEN best_rate - last_rate END AS lost
FROM each LEFT JOIN since USING (problem_id) LEFT JOIN evaluated USING (problem_id)
"""


def problems(run: OpenedRun, order: str, page: int) -> tuple[list[Row], int]:
    """A page of problems in an order, and how many there are.

    ``change``: the pass rate of the problem's last evaluation less that of its first, ``lost``: the best of its
    evaluations less the last one; both None without two. ``tries_since``: training steps that met the problem after
    its last success. Greedy yardsticks are in no number.

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
