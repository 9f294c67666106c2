"""Prepares the tables that all sections query, such as rollouts and groups. Evaluation rollouts are used if there are
no training rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from outrider.report.content import Series, Unit
from outrider.report.data import SAMPLED, Columns, RunData

BINS = 100  # maximum number of points along training; more points cannot be distinguished on a screen
SPLITS = ("train", "evaluate", "greedy")
KINDS = ("solved", "mixed", "unsolved")

# Bins have equal numbers of steps and are named by their last step. The phases are the first and the last fifth of the
# steps: enough steps for a mean, without the middle, where a run changes fastest.
_BINS = """
CREATE TEMP TABLE bins AS
SELECT step, max(step) OVER (PARTITION BY i * least(n, {bins}) // n) AS upto,
    CASE WHEN n = 1 THEN NULL WHEN i < fifth THEN 'early' WHEN i >= n - fifth THEN 'late' END AS phase
FROM (
    SELECT step, row_number() OVER (ORDER BY step) - 1 AS i, count(*) OVER () AS n, greatest(1, n // 5) AS fifth
    FROM (SELECT DISTINCT step FROM rollouts WHERE split = '{split}')
)
"""
_SEEN = """
CREATE TEMP VIEW {name} AS
SELECT {source}.* {without}, upto, phase, CAST(outcome = 'correct' AS INTEGER) AS success,
    tokens + coalesce(observed, 0) + branch_at AS length
FROM {source} JOIN bins USING (step) WHERE split = '{split}' AND {which}
"""
# The first success is the successful rollout with the lowest index in its group, since stages request rollouts in the
# order of this index. A baseline's greedy rollouts count only in token totals.
_GROUPS = """
CREATE TEMP TABLE groups AS
SELECT step, group_id, any_value(upto) AS upto, any_value(phase) AS phase,
    any_value(problem_id) AS problem_id, any_value(level) AS level,
    count(*) AS n, count(success) AS verified, coalesce(sum(success), 0) AS successes,
    count(*) FILTER (outcome IN ('correct', 'incorrect', 'unparseable')) AS scorable,
    sum(tokens) + coalesce(any_value(greedy_tokens), 0) AS tokens,
    arg_min(stage, member) FILTER (success = 1) AS first_stage,
    arg_min(stream, member) FILTER (success = 1) AS first_stream,
    arg_min(context, member) FILTER (success = 1) AS first_context,
    CASE WHEN count(success) = 0 THEN NULL WHEN coalesce(sum(success), 0) = 0 THEN 'unsolved'
        WHEN sum(success) = count(success) THEN 'solved' ELSE 'mixed' END AS kind
FROM seen LEFT JOIN (
    SELECT step, group_id, sum(tokens) AS greedy_tokens FROM spent WHERE NOT {sampled} GROUP BY step, group_id
) USING (step, group_id)
GROUP BY step, group_id
"""

FIRST_STAGE = """(
    stage = (SELECT min(stage) FROM seen) AND parent IS NULL AND context = 'plain' AND NOT EXISTS (
        SELECT 1 FROM seen WHERE stage = (SELECT min(stage) FROM seen) AND parent IS NULL
        GROUP BY step, group_id HAVING count(*) FILTER (context = 'plain') = 0
    )
)"""
"""SQL condition for the first stage's rollouts that start at the plain prompt. The condition is false if the stage
samples some groups only with hints, since the other groups would be a biased selection."""


def query(run: RunData, sql: str, values: Sequence[Any] = ()) -> Columns:
    """Return the result of an SQL query on the table ``rollouts`` or on the tables below. The tables below have only
    rollouts of the split that :func:`split` returns.

    - ``with_text``: rollouts with four more columns. ``success`` is 1 or 0, or null if the rollout was never verified.
      ``length`` counts generated tokens, tokens of environment replies, and tokens that a branch copies from its
      parent. Training steps are divided into at most ``BINS`` bins, and ``upto`` is the last step of the rollout's bin.
      ``phase`` is "early" in the first fifth of the steps, "late" in the last fifth, and null otherwise.
    - ``seen``: ``with_text`` without the columns ``text`` and ``prompt``. Queries on ``seen`` are much faster.
    - ``spent``: ``seen`` plus greedy rollouts that serve only as a baseline. They count as cost, and are excluded from
      other statistics.
    - ``groups``: one row per step and group. ``n``, ``verified`` and ``successes`` are numbers of rollouts.
      ``scorable`` is the number of correct, incorrect and unparseable rollouts. ``tokens`` includes greedy rollouts.
      ``kind`` is solved, mixed or unsolved, or null if no rollout was verified. ``first_stage``, ``first_stream`` and
      ``first_context`` are the columns ``stage``, ``stream`` and ``context`` of the first successful rollout, or null
      if there is none.
    - ``bins``: one row per step, with the columns ``step``, ``upto`` and ``phase``.
    """
    try:
        return run.query(sql, values)
    except duckdb.CatalogException:
        if run.has("groups"):
            raise
    _prepare(run)  # only at the first query of a run
    return run.query(sql, values)


def _prepare(run: RunData) -> None:
    there = run.query("SELECT DISTINCT split FROM rollouts")["split"].tolist()
    split = next((name for name in (*SPLITS, *sorted(there)) if name in there), "train")
    run.db.execute(_BINS.format(split=split, bins=BINS))
    names = {"name": "with_text", "source": "rollouts", "without": ""}
    run.db.execute(_SEEN.format(**names, split=split, which=SAMPLED))
    gathered = run.has("gathered")
    source, without = ("gathered", "EXCLUDE (row_key)") if gathered else ("rollouts", "EXCLUDE (text, prompt)")
    for name, which in (("seen", SAMPLED), ("spent", "true")):
        run.db.execute(_SEEN.format(name=name, source=source, without=without, split=split, which=which))
    run.db.execute(_GROUPS.format(sampled=SAMPLED))


def split(run: RunData) -> str:
    """Return the split that all sections show: "train" if it has rollouts, otherwise "evaluate" or "greedy" (an
    evaluation by greedy decoding)."""
    columns = query(run, "SELECT split FROM seen LIMIT 1")["split"].tolist()
    return columns[0] if columns else "train"


def ends(run: RunData, most: int) -> dict[str, list[int]]:
    """Return the first steps and the last steps of training, at most ``most`` of each.

    The keys are the labels "first steps" and "last steps". If there is only one step, its key is "all responses".
    """
    columns = query(run, "SELECT step, phase FROM bins ORDER BY step")
    steps = {phase: columns["step"][columns["phase"] == phase].tolist() for phase in ("early", "late", None)}
    if not steps["late"]:
        return {"all responses": steps[None]}
    return {"first steps": steps["early"][:most], "last steps": steps["late"][-most:]}


def one(columns: Columns) -> dict[str, Any]:
    """Return the only row of a result as plain values.

    >>> one({"n": np.array([3])})
    {'n': 3}
    """
    return {name: values[0].item() if hasattr(values[0], "item") else values[0] for name, values in columns.items()}


def rows(columns: Columns) -> list[list[Any]]:
    """Return the rows of a result as plain values. NaN becomes None.

    >>> rows({"a": np.array([1, 2]), "b": np.array([0.5, np.nan])})
    [[1, 0.5], [2, None]]
    """
    return [[cell(value) for value in row] for row in zip(*columns.values(), strict=True)]


def series(name: str, x: NDArray[Any], y: NDArray[Any], **more: Any) -> Series:
    """Convert arrays to a series of plain numbers."""
    return Series(name, x.tolist(), np.asarray(y, dtype=np.float64).tolist(), **more)


def known(values: NDArray[Any]) -> bool:
    """Whether a column has a value other than None and NaN.

    >>> known(np.array([np.nan, 1.0])), known(np.array([np.nan])), known(np.array([None]))
    (True, False, False)
    """
    return any(value is not None and value == value for value in values.tolist())


def by(columns: Columns, key: str) -> dict[str, Columns]:
    """Split a result into one part per value of the column ``key``, in alphabetical order of the values.

    >>> by({"k": np.array(["b", "a"]), "x": np.array([1, 2])}, "k")["a"]["x"].tolist()
    [2]
    """
    there = sorted({*columns[key].tolist()} - {None})
    return {name: {c: values[columns[key] == name] for c, values in columns.items()} for name in there}


def shares(columns: Columns, name: str, count: str, kinds: Sequence[str]) -> list[Series]:
    """Return the series of a stacked plot whose x values are the bins of steps (column ``upto``). Each series is the
    share of one kind in every bin. The share is 0 in a bin without this kind."""
    at = np.unique(columns["upto"])
    place = {x: i for i, x in enumerate(at.tolist())}
    counts = {kind: np.zeros(len(at)) for kind in kinds}
    for x, kind, number in zip(columns["upto"].tolist(), columns[name].tolist(), columns[count].tolist(), strict=True):
        if kind in counts and number == number:
            counts[kind][place[x]] += number
    total = np.sum(list(counts.values()), axis=0) if counts else np.zeros(len(at))
    with np.errstate(invalid="ignore"):
        return [series(kind, at, values / total) for kind, values in counts.items() if values.any()]


def in_percent(*columns: str) -> dict[str, Unit]:
    """Return the unit "percent" for the given columns of a table."""
    return dict.fromkeys(columns, "percent")


def cell(value: Any) -> Any:
    """Convert a value to a plain table cell. NaN becomes None, which is an empty cell."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value
