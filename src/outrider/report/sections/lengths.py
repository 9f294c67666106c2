"""Lengths of responses by outcome, and what the limit cut off."""

from __future__ import annotations

from outrider.report.content import Figure, Section, Series, Table
from outrider.report.data import RunData
from outrider.report.sections.seen import ask, by, known, one, rows, series

_BARS = 12  # more do not fit side by side on a phone

_TEXT = (
    "Length is the whole response, prefixes of branches included. Where the limit cuts responses off, success measures "
    "the limit; where length rises without success, tokens are spent on nothing; where incorrect responses grow "
    "faster than correct ones, it is the failures that are paid for."
)
_CHARACTERS = " These rollouts do not say how many tokens they have: lengths are in characters."


def section(run: RunData) -> Section | None:
    """Mean length by outcome, quantiles and truncation over time, its distribution, and both ends of training.

    In characters where tokens are not counted. None without rollouts.
    """
    there = one(ask(run, "SELECT count(*) AS rollouts, count(length) AS counted FROM seen"))
    if not there["rollouts"]:
        return None
    length, unit = ("length", "tokens") if there["counted"] else ("length(text)", "characters")
    figures = [*_by_outcome(run, length, unit), _quantiles(run, length, unit), *_truncated(run)]
    figures.append(_bars(run, length, unit))
    text = _TEXT + (_CHARACTERS if unit == "characters" else "")
    return Section("lengths", "Lengths and truncation", text, figures, [_table(run, length)])


_OUTCOME = "CASE success WHEN 1 THEN 'correct' WHEN 0 THEN 'not correct' ELSE 'not judged' END"


def _by_outcome(run: RunData, length: str, unit: str) -> list[Figure]:
    found = ask(run, f"SELECT upto, {_OUTCOME} AS outcome, avg({length}) AS mean FROM seen GROUP BY ALL ORDER BY upto")
    parts = by(found, "outcome")
    if len(parts) < 2:
        return []
    lines = [series(name, part["upto"], part["mean"]) for name, part in parts.items()]
    return [Figure("lengths-outcome", "Mean length by outcome", "line", "step", unit, lines)]


def _quantiles(run: RunData, length: str, unit: str) -> Figure:
    names = ("10 %", "median", "90 %", "longest")
    found = ask(
        run,
        f"SELECT upto, quantile_cont({length}, 0.1) AS '10 %', quantile_cont({length}, 0.5) AS median, "
        f"quantile_cont({length}, 0.9) AS '90 %', max({length}) AS longest FROM seen GROUP BY upto ORDER BY upto",
    )
    lines = [series(name, found["upto"], found[name]) for name in names]
    return Figure("lengths-quantiles", "Lengths along training", "line", "step", unit, lines)


def _truncated(run: RunData) -> list[Figure]:
    found = ask(
        run,
        "SELECT upto, avg((stop <> 'stop')::INT) AS share, avg((stop <> 'stop')::INT) FILTER (success = 0) AS failed "
        "FROM seen GROUP BY upto ORDER BY upto",
    )
    if not known(found["share"]):
        return []
    lines = [series("all", found["upto"], found["share"])]
    if known(found["failed"]):
        lines.append(series("not correct", found["upto"], found["failed"]))
    return [Figure("lengths-truncated", "Responses cut off", "line", "step", "share of rollouts", lines)]


def _bars(run: RunData, length: str, unit: str) -> Figure:
    """The distribution by outcome, in bars of equal width."""
    found = ask(
        run,
        f"""
        WITH known AS (SELECT {length} AS length, {_OUTCOME} AS outcome FROM seen WHERE {length} IS NOT NULL),
        width AS (SELECT greatest(1, ceil((max(length) + 1) / {_BARS}.0))::BIGINT AS width FROM known)
        SELECT outcome, length // width * width AS low, any_value(width) AS width, count(*) AS n
        FROM known, width GROUP BY outcome, length // width * width ORDER BY low
        """,
    )
    lows = sorted(set(found["low"].tolist()))
    wide = int(found["width"][0]) if lows else 1
    lines = []
    for name, part in by(found, "outcome").items():
        share = dict(zip(part["low"].tolist(), (part["n"] / part["n"].sum()).tolist(), strict=True))
        labels = [f"{low:.0f} to {low + wide - 1:.0f}" if wide > 1 else f"{low:.0f}" for low in lows]
        lines.append(Series(name, labels, [share.get(low, 0.0) for low in lows]))
    return Figure("lengths-bars", "Lengths by outcome", "bars", unit, "share of the outcome", lines)


def _table(run: RunData, length: str) -> Table:
    found = ask(
        run,
        f"""
        SELECT coalesce(phase, 'all') AS phase, {_OUTCOME} AS outcome, count(*) AS rollouts, avg({length}) AS mean,
            quantile_cont({length}, 0.5) AS median, quantile_cont({length}, 0.95) AS high,
            avg((stop <> 'stop')::INT) AS truncated
        FROM seen WHERE phase IS NOT NULL OR (SELECT count(*) FROM bins) = 1 GROUP BY ALL ORDER BY phase, outcome
        """,
    )
    names = {"early": "first fifth of the steps", "late": "last fifth", "all": "all"}
    columns = ["when", "outcome", "rollouts", "mean", "median", "95 %", "cut off"]
    body = [[names[row[0]], *row[1:]] for row in rows(found)]
    return Table("lengths-table", "Lengths at both ends of training", columns, body)
