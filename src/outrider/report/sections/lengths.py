"""The section on the lengths of responses by outcome, and on truncation."""

from __future__ import annotations

import numpy as np

from outrider.measure.lengths import drift, lengths_by_outcome, shaped_lengths
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock
from outrider.report.data import CUT, RunData
from outrider.report.sections.seen import by, cell, in_percent, known, one, query, series, split

_BARS = 12  # maximum number of bars that fit on a phone's screen

_TEXT = (
    "Length is that of the whole response, including the prefixes of branches. If many responses are truncated, "
    "success depends on the limit. If length grows without success, tokens are wasted. If incorrect responses grow "
    "faster than correct ones, the growth comes from failures."
)
_CHARACTERS = " Token counts are missing, so lengths are in characters."


def section(run: RunData) -> Section | None:
    """Return a section on response lengths. Three figures show quantities over training: the mean length by outcome,
    quantiles of lengths, and the share of truncated responses. Another figure shows the distribution of lengths. A
    table compares lengths early and late in training. A second table shows whether ``novelty`` prefers long responses,
    if the recipe uses this component, which gives unlikely successes higher advantages.

    Lengths are measured in characters if there are no token counts. The result is None if there are no rollouts.
    """
    there = one(query(run, "SELECT count(*) AS rollouts, count(length) AS counted FROM seen"))
    if not there["rollouts"]:
        return None
    unit = "tokens" if there["counted"] else "characters"
    _measure(run, unit)
    figures = [*_by_outcome(run, unit), _quantiles(run, unit), *_truncated(run), _bars(run, unit)]
    text = _TEXT + (_CHARACTERS if unit == "characters" else "")
    return Section("lengths", "Lengths and truncation", text, figures, [_table(run, unit), *_sharpened(run)])


def _measure(run: RunData, unit: str) -> None:
    """Create the relation ``measured``, which has the length of each response. Texts are read at most once."""
    what, length, source = ("VIEW", "length", "seen") if unit == "tokens" else ("TABLE", "length(text)", "with_text")
    outcome = "CASE success WHEN 1 THEN 'correct' WHEN 0 THEN 'not correct' ELSE 'not verified' END"
    run.db.execute(
        f"CREATE OR REPLACE TEMP {what} measured AS "
        f"SELECT upto, phase, {outcome} AS outcome, stop, {length} AS size FROM {source}"
    )


def _by_outcome(run: RunData, unit: str) -> list[Figure]:
    columns = query(run, "SELECT upto, outcome, avg(size) AS mean FROM measured GROUP BY ALL ORDER BY upto")
    parts = by(columns, "outcome")
    if len(parts) < 2:
        return []
    lines = [series(name, part["upto"], part["mean"]) for name, part in parts.items()]
    return [Figure("lengths-outcome", "Mean length by outcome", "line", "step", unit, lines)]


def _quantiles(run: RunData, unit: str) -> Figure:
    names = ("10 %", "median", "90 %", "longest")
    columns = query(
        run,
        "SELECT upto, quantile_cont(size, 0.1) AS '10 %', quantile_cont(size, 0.5) AS median, "
        "quantile_cont(size, 0.9) AS '90 %', max(size) AS longest FROM measured GROUP BY upto ORDER BY upto",
    )
    lines = [series(name, columns["upto"], columns[name]) for name in names]
    return Figure("lengths-quantiles", "Lengths along training", "line", "step", unit, lines)


def _truncated(run: RunData) -> list[Figure]:
    columns = query(
        run,
        f"SELECT upto, avg(({CUT})::INT) AS share, "
        f"avg(({CUT})::INT) FILTER (outcome = 'not correct') AS failed "
        "FROM measured GROUP BY upto ORDER BY upto",
    )
    if not known(columns["share"]):
        return []
    lines = [series("all", columns["upto"], columns["share"])]
    if known(columns["failed"]):
        lines.append(series("not correct", columns["upto"], columns["failed"]))
    return [Figure("lengths-truncated", "Responses truncated", "line", "step", "share of rollouts", lines, percent="y")]


def _bars(run: RunData, unit: str) -> Figure:
    """Plot the distribution of lengths by outcome, in bars of equal width."""
    columns = query(
        run,
        f"""
        WITH width AS (SELECT greatest(1, ceil((max(size) + 1) / {_BARS}.0))::BIGINT AS width FROM measured)
        SELECT outcome, size // width * width AS low, any_value(width) AS width, count(*) AS n
        FROM measured, width WHERE size IS NOT NULL GROUP BY outcome, low ORDER BY low
        """,
    )
    lows = sorted(set(columns["low"].tolist()))
    wide = int(columns["width"][0]) if lows else 1
    lines = []
    for name, part in by(columns, "outcome").items():
        share = dict(zip(part["low"].tolist(), (part["n"] / part["n"].sum()).tolist(), strict=True))
        labels = [f"{low:.0f} to {low + wide - 1:.0f}" if wide > 1 else f"{low:.0f}" for low in lows]
        lines.append(Series(name, labels, [share.get(low, 0.0) for low in lows]))
    return Figure("lengths-bars", "Lengths by outcome", "bars", unit, "share of the outcome", lines, percent="y")


def _table(run: RunData, unit: str) -> TableBlock:
    """Return a table of lengths by outcome, early and late in training, with the change of the mean."""
    data = query(
        run,
        "SELECT coalesce(phase, 'all') AS phase, outcome, size::DOUBLE AS size, "
        f"({CUT})::DOUBLE AS cut FROM measured "
        "WHERE phase IS NOT NULL OR (SELECT count(*) FROM bins) = 1",
    )
    body: list[list[CellValue]] = []
    for phase, name in {"early": "first fifth of the steps", "late": "last fifth", "all": "all"}.items():
        at = data["phase"] == phase
        outcomes = data["outcome"][at].tolist()
        for row in lengths_by_outcome(data["size"][at], outcomes, data["cut"][at]) if outcomes else []:
            body.append([name, *map(cell, row)])
    columns = ["when", "outcome", "rollouts", "mean", "deviation", "10 %", "median", "90 %", "longest", "truncated"]
    title = "Lengths at the beginning and at the end of training" if split(run) == "train" else "Lengths"
    return TableBlock("lengths-table", title, columns, body, _drift(run, unit), in_percent("truncated"))


def _drift(run: RunData, unit: str) -> str:
    columns = query(run, "SELECT upto, avg(size) AS mean FROM measured GROUP BY upto ORDER BY upto")
    moved = drift(columns["upto"], columns["mean"])
    if np.isnan(moved.error):
        return ""
    return (
        f"The mean changed by {moved.per_doubling:+.2g} {unit} per doubling of the number of steps (standard error "
        f"{moved.error:.1g})."
    )


def _sharpened(run: RunData) -> list[TableBlock]:
    """Return a table that shows whether the credit component ``novelty`` prefers long responses.

    ``novelty`` prefers successes with a lower log-probability than the group's mean. The table compares the lengths of
    these preferred successes with three sets: all successes of the group, the whole group, and the group's other
    successes. The list is empty if the recipe does not use ``novelty``, or if no success was preferred.
    """
    if not _has_novelty(run):
        return []
    data = query(
        run,
        """
        SELECT (hash(step, group_id, stream) >> 1)::BIGINT AS code, tokens::DOUBLE AS size, success::DOUBLE AS success,
            success = 1 AND advantage > 0
                AND logprob < avg(logprob) OVER (PARTITION BY step, group_id, stream) AS shaped
        FROM seen WHERE unused = '' AND isfinite(advantage) AND logprob IS NOT NULL
        """,
    )
    by_reference = shaped_lengths(data["size"], data["code"], data["success"], data["shaped"])
    body: list[list[CellValue]] = [
        [_REFERENCES[name], row.z_responses, row.z, row.z_error, row.ratio_responses, row.ratio]
        for name, row in by_reference.items()
        if row.ratio_responses
    ]
    if not body:
        return []
    columns = ["reference", "responses (z)", "mean z", "standard error", "responses (ratio)", "mean ratio"]
    note = (
        "Own tokens of the successes preferred by novelty sharpening, because they were less likely than the mean of "
        "their group. A z-score above 0 means a preference for longer responses. The first two references include "
        "the preferred responses themselves, which biases z towards 0."
    )
    return [TableBlock("lengths-sharpened", "Does novelty prefer long responses?", columns, body, note)]


_REFERENCES = {"correct": "successes of the group", "group": "whole group", "unshaped": "its other successes"}


def _has_novelty(run: RunData) -> bool:
    credit = run.config.get("credit")
    chains = credit.values() if isinstance(credit, dict) else []
    links = [link for chain in chains if isinstance(chain, list) for link in chain]
    return any(link == "novelty" or (isinstance(link, dict) and "novelty" in link) for link in links)
