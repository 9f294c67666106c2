"""A page of rollouts: the rows of a selection, how many there are, and what may be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from outrider.report.run import rows_of_files
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.rollout_filter import EXACT, PAGE, RolloutFilter
from outrider.view.text_search import PATIENCE, Searched

CHOICES = ("split", "model", "test_set", "level", "verdict", "stage", "stream", "context", "stop")
"""Filters that offer their values."""
_MOST_CHOICES = 40
_PREVIEW = 240  # characters


class Listing(NamedTuple):
    """Rows with the beginning of their text, and counts over all pages.

    Attributes:
        tokens: None where a dump does not say.
        searched: how far a search for a text has come; None where none was asked for.
    """

    rows: list[Row]
    total: int
    correct: int
    verified: int
    tokens: int | None
    searched: Searched | None

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE))


def listing(run: OpenedRun, chosen: RolloutFilter) -> Listing:
    """The page of a selection."""
    source, values, searched = selected(run, chosen)
    counts = run.rows(
        "SELECT count(*) AS total, count(*) FILTER (outcome = 'correct') AS correct, count(outcome) AS verified, "
        f"sum(tokens) AS tokens FROM {source}",
        values,
    )[0]
    # the places first, since a late page would sort whole rows
    places = f"SELECT rowid FROM {source} ORDER BY {chosen.order()} LIMIT {PAGE} OFFSET {(chosen.page - 1) * PAGE}"
    rows = run.rows(f"SELECT * FROM seen WHERE rowid IN ({places}) ORDER BY {chosen.order()}", values)
    texts = texts_of(run, rows, ["text"], _PREVIEW)
    return Listing([row | texts.get((row["file"], row["row"]), {}) for row in rows], searched=searched, **counts)


def selected(
    run: OpenedRun, chosen: RolloutFilter, patience: float | None = PATIENCE
) -> tuple[str, list[Any], Searched | None]:
    """A relation of SQL with the rows of a selection, its values, and how far the search for its text has come.

    Args:
        patience: seconds to wait for such a search; None waits for its end.
    """
    condition, values = chosen.condition()
    if not chosen.text:
        return f"(SELECT rowid, * FROM seen WHERE {condition})", values, None
    # texts are on disk: only those files are read that hold rows of the other conditions, in the order of the list
    files = run.rows(
        f"SELECT file FROM seen WHERE {condition} GROUP BY file ORDER BY min(split <> 'train'), min(step), file", values
    )
    search = run.search(chosen.text, [row["file"] for row in files])
    searched = search.searched(patience)
    source = f"(SELECT rowid, * FROM seen SEMI JOIN {search.table} USING (file, row) WHERE {condition})"
    return source, values, searched


def texts_of(run: OpenedRun, rows: list[Row], names: Sequence[str], longest: int = 0) -> dict[tuple[str, int], Row]:
    """Columns of texts for some rows, by their place; cut after ``longest`` characters unless that is 0."""
    if not rows:
        return {}
    places = [(row["file"], row["row"]) for row in rows]
    texts = ", ".join(f"left({name}, {longest}) AS {name}" if longest else name for name in names)
    if not run.data.has("files"):
        source = "SELECT file, row, text, prompt, answer, detail FROM texts"
    else:
        of_files = rows_of_files(run.data, sorted({file for file, _ in places}), names)
        source = f"SELECT filename AS file, file_row_number AS row, {', '.join(names)} FROM ({of_files})"
    pairs = ", ".join(["(?, ?)"] * len(places))
    found = run.rows(
        f"SELECT file, row, {texts} FROM ({source}) WHERE (file, row) IN ({pairs})",
        [part for place in places for part in place],
    )
    return {(text["file"], text["row"]): text for text in found}


def choices(run: OpenedRun) -> dict[str, list[tuple[str, int]]]:
    """The values of each filter that has few, with how many rollouts have them; of many values there is an empty list,
    and a filter of one value is excluded."""
    return run.kept("choices", lambda: _choices(run))


def _choices(run: OpenedRun) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for name in CHOICES:
        column = EXACT[name]
        rows = run.rows(
            f"SELECT coalesce(nullif({column}, ''), 'none') AS value, count(*) AS n FROM seen GROUP BY 1 "
            f"ORDER BY 1 LIMIT {_MOST_CHOICES + 1}"
        )
        if len(rows) > 1:
            found[name] = [(row["value"], row["n"]) for row in rows] if len(rows) <= _MOST_CHOICES else []
    return found
