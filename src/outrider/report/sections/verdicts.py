"""The section on the verifier: outcomes over time, verification time, and failures."""

from __future__ import annotations

from outrider.report.content import CellValue, Figure, RolloutsOf, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import in_percent, known, query, rows, series, shares

_SHOWN = 15
_OUTCOMES = ("correct", "incorrect", "unparseable", "timeout", "error")

_TEXT = (
    "All results depend on the verdicts. Timeouts and errors do not count as failures. Many unparseable responses "
    "mean that the policy is still learning the format. Read rollouts after a sudden rise of success: the verifier "
    "may have a false accept."
)


def section(run: RunData) -> Section | None:
    """Return a section with outcomes and verification times over training, the most common reasons for verdicts, and
    the slowest verdicts. The result is None if there are no verdicts."""
    outcomes = query(
        run, "SELECT upto, outcome, count(*) AS n FROM seen WHERE outcome IS NOT NULL GROUP BY ALL ORDER BY upto"
    )
    if not len(outcomes["n"]):
        return None
    stack = shares(outcomes, "outcome", "n", _OUTCOMES)
    y = "share of rollouts"
    figure = Figure("verdicts-outcomes", "Verdicts", "stack", "step", y, stack, y_range=(0.0, 1.0), percent="y")
    tables = [_counts(run), _reasons(run), *_slowest(run)]
    return Section("verdicts", "Verifier health", _TEXT, [figure, *_seconds(run)], tables)


def _counts(run: RunData) -> TableBlock:
    data = run.query(
        """
        SELECT split, outcome, count(*) AS n, n / sum(n) OVER (PARTITION BY split) AS share,
            avg(seconds) AS seconds, max(seconds) AS longest
        FROM rollouts WHERE outcome IS NOT NULL GROUP BY split, outcome
        ORDER BY split <> 'train', split, n DESC, outcome
        """
    )
    columns = ["split", "verdict", "rollouts", "share", "mean seconds", "longest"]
    return TableBlock("verdicts-counts", "Verdicts and their time", columns, rows(data), units=in_percent("share"))


def _reasons(run: RunData) -> TableBlock:
    """Return the most common reasons for verdicts. Numbers in a reason are replaced by ``#``, so that similar reasons
    are counted together."""
    columns = run.query(
        f"""
        SELECT outcome, regexp_replace(left(detail, 200), '[0-9]+', '#', 'g') AS reason, sum(n)::BIGINT AS n,
            min(example) AS example
        FROM (
            SELECT outcome, detail, count(*) AS n,
                min({{'rollout': group_id || '/' || member, 'problem': problem_id, 'split': split, 'step': step}})
                    AS example
            FROM rollouts WHERE outcome IS NOT NULL AND outcome <> 'correct' AND detail <> '' GROUP BY outcome, detail
        )
        GROUP BY outcome, reason
        ORDER BY outcome NOT IN ('error', 'timeout'), n DESC, reason LIMIT {_SHOWN}
        """
    )
    note = "Errors and timeouts first. # replaces any number."
    body: list[list[CellValue]] = [[*others, _place(**example)] for *others, example in rows(columns)]
    return TableBlock(
        "verdicts-reasons", "Reasons of verdicts", ["verdict", "detail", "rollouts", "example"], body, note
    )


def _place(rollout: str, problem: str, split: str, step: int) -> RolloutsOf:
    return RolloutsOf(problem, rollout, split, int(step))


def _seconds(run: RunData) -> list[Figure]:
    columns = query(
        run,
        """
        SELECT upto, quantile_cont(seconds, 0.5) AS middle, quantile_cont(seconds, 0.99) AS high, max(seconds) AS most
        FROM seen WHERE seconds IS NOT NULL GROUP BY upto ORDER BY upto
        """,
    )
    if not known(columns["most"]) or not columns["most"].max() > 0:
        return []
    names = {"median": "middle", "99 %": "high", "longest": "most"}
    lines = [series(name, columns["upto"], columns[key]) for name, key in names.items()]
    return [Figure("verdicts-seconds", "Time to verify a rollout", "line", "step", "seconds", lines)]


def _slowest(run: RunData) -> list[TableBlock]:
    data = run.query(
        """
        SELECT seconds, outcome, split, step, group_id || '/' || member AS rollout, left(detail, 200) AS detail,
            problem_id
        FROM rollouts WHERE seconds > 0 ORDER BY seconds DESC, rollout LIMIT 10
        """
    )
    if not len(data["seconds"]):
        return []
    columns = ["seconds", "verdict", "split", "step", "rollout", "detail"]
    body: list[list[CellValue]] = [
        [seconds, outcome, split, step, _place(rollout, problem, split, step), detail]
        for seconds, outcome, split, step, rollout, detail, problem in rows(data)
    ]
    return [TableBlock("verdicts-slowest", "The slowest verdicts", columns, body)]
