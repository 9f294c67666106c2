"""The section on diversity, which shows how much the rollouts of a group differ."""

from __future__ import annotations

from outrider.report.content import Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.seen import in_percent, known, one, query, rows, series

_TEXT = (
    "More samples help only if they differ. Two rollouts of a group disagree if their answers differ; the "
    "probability of disagreement does not depend on the group size. Disagreement among incorrect answers shows "
    "exploration; a single shared incorrect answer shows a systematic error. Branches are excluded, because they "
    "share a prefix."
)


def section(run: RunData) -> Section | None:
    """Return a section on the diversity of answers within groups, over training and by kind of group (solved, mixed or
    unsolved).

    The result is None if no group has two rollouts.
    """
    if not one(query(run, "SELECT count(*) AS n FROM groups WHERE n > 1"))["n"]:
        return None
    run.db.execute(_ANSWERS)
    figures = [*_disagreement(run), *_repeats(run)]
    tables = _table(run)
    return Section("diversity", "Diversity of answers", _TEXT, figures, tables) if figures or tables else None


# For any n, 1 - sum c(c-1) / n(n-1) is an unbiased estimate of the probability that the answers of two rollouts differ
# (Simpson 1949).
_ANSWERS = """
CREATE OR REPLACE TEMP TABLE answers AS
WITH answers AS (
    SELECT upto, step, group_id, answer, count(*) AS c, max(success) = 1 AS correct FROM seen
    WHERE answer <> '' AND parent IS NULL GROUP BY ALL
)
SELECT upto, step, group_id, count(*) AS answers, sum(c) AS n, max(c) / sum(c) AS majority,
    1 - sum(c * (c - 1)) / nullif(sum(c) * (sum(c) - 1), 0) AS differ,
    1 - sum(c * (c - 1)) FILTER (NOT correct)
        / nullif(sum(c) FILTER (NOT correct) * (sum(c) FILTER (NOT correct) - 1), 0) AS wrong_differ
FROM answers GROUP BY upto, step, group_id HAVING sum(c) > 1
"""


def _disagreement(run: RunData) -> list[Figure]:
    columns = run.query(
        "SELECT upto, avg(differ) AS differ, avg(wrong_differ) AS wrong, avg(answers / n) AS each "
        "FROM answers GROUP BY upto ORDER BY upto"
    )
    names = {
        "differ": "two answers differ",
        "wrong": "two incorrect answers differ",
        "each": "distinct answers per rollout",
    }
    lines = [series(name, columns["upto"], columns[key]) for key, name in names.items() if known(columns[key])]
    if not lines:
        return []
    title = "Answers within a group"
    return [Figure("diversity-answers", title, "line", "step", "share", lines, y_range=(0.0, 1.0), percent="y")]


def _repeats(run: RunData) -> list[Figure]:
    columns = query(
        run,
        """
        SELECT upto, 1 - sum(texts) / sum(n) AS repeated FROM (
            SELECT upto, count(*) AS texts, sum(copies) AS n FROM (
                SELECT upto, step, group_id, hash(text), count(*) AS copies FROM with_text
                WHERE parent IS NULL AND text <> '' GROUP BY ALL
            ) GROUP BY upto, step, group_id HAVING sum(copies) > 1
        ) GROUP BY upto ORDER BY upto
        """,
    )
    if not len(columns["upto"]):
        return []
    lines = [series("repeated", columns["upto"], columns["repeated"])]
    note = "Rollouts whose text is identical to an earlier one of their group."
    title, y = "Repeated texts", "share of rollouts"
    return [Figure("diversity-repeats", title, "line", "step", y, lines, y_range=(0, 1), note=note, percent="y")]


def _table(run: RunData) -> list[TableBlock]:
    data = query(
        run,
        """
        SELECT kind, count(*) AS groups, avg(answers.n) AS rollouts, avg(answers) AS answers,
            avg(majority) AS majority, avg(differ) AS differ, avg(wrong_differ) AS wrong
        FROM answers JOIN groups USING (step, group_id) WHERE kind IS NOT NULL GROUP BY kind ORDER BY kind
        """,
    )
    if not len(data["kind"]):
        return []
    columns = ["kind", "groups", "rollouts with an answer", "distinct answers", "share of the majority"]
    columns += ["two answers differ", "two incorrect answers differ"]
    title = "Answers by kind of group"
    return [TableBlock("diversity-table", title, columns, rows(data), units=in_percent(*columns[4:]))]
