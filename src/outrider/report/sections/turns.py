"""The section on turns: the policy's requests to environments, and the environments' observations."""

from __future__ import annotations

from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import in_percent, known, one, query, rows, series

_TEXT = (
    "An environment answers each turn. Its tokens are observed: they cost no generation and are not trained on, but "
    "they fill the context. A rise in turns without a rise in success brings no new information. Errors are turns "
    "with an invalid request, such as a malformed call or an unknown name."
)
_MOST = 8  # rollouts with at least this number of turns share one row


def section(run: RunData) -> Section | None:
    """Return a section on multi-turn rollouts. Figures show how the turns, generated tokens and observed tokens per
    rollout change over training, and the share of turns with an error. A table shows success by number of turns. The
    result is None if no rollout has several turns, observed tokens or turn errors."""
    there = one(
        query(run, "SELECT max(turns) AS turns, sum(observed) AS observed, sum(turn_errors) AS errors FROM seen")
    )
    # None and NaN (unknown numbers) count as 0
    if not ((there["turns"] or 0) > 1 or (there["observed"] or 0) > 0 or (there["errors"] or 0) > 0):
        return None
    columns = query(
        run,
        "SELECT upto, avg(turns) AS turns, avg(turns) FILTER (success = 1) AS right, "
        "avg(tokens) AS tokens, avg(observed) AS observed, sum(turn_errors) / sum(turns) AS errors "
        "FROM seen GROUP BY upto ORDER BY upto",
    )
    upto = columns["upto"]
    turns = [series(name, upto, columns[key]) for name, key in (("all", "turns"), ("correct", "right"))]
    figures = [Figure("turns", "Turns of a rollout", "line", "step", "turns", turns)]
    if known(columns["observed"]):
        lines = [series(name, upto, columns[key]) for name, key in (("generated", "tokens"), ("observed", "observed"))]
        figures.append(Figure("turns-tokens", "Generated and observed tokens", "line", "step", "tokens", lines))
    if known(columns["errors"]):
        lines = [series("errors", upto, columns["errors"])]
        figures.append(Figure("turns-errors", "Turns with an error", "line", "step", "share", lines, percent="y"))
    return Section("turns", "Turns", _TEXT, figures, [_by_turns(run)])


def _by_turns(run: RunData) -> TableBlock:
    found = query(
        run,
        f"SELECT least(turns, {_MOST}) AS number, count(*) AS n, avg(success) AS success, avg(tokens) AS tokens, "
        "avg(observed) AS observed, avg(turn_errors) AS errors FROM seen WHERE turns IS NOT NULL "
        "GROUP BY number ORDER BY number",
    )
    body: list[list[CellValue]] = [
        [f"{number:.0f} and more" if number == _MOST else f"{number:.0f}", *rest] for number, *rest in rows(found)
    ]
    columns = ["turns", "rollouts", "success", "generated tokens", "observed tokens", "errors"]
    note = "Means per rollout; for a branch, of its own turns only."
    title = "Rollouts by number of turns"
    return TableBlock("turns-table", title, columns, body, note, in_percent("success"))
