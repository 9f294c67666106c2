"""Prepares a page of the list of rollouts: the rows, counts over all pages, and the values for each filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from outrider.report.run import rows_of_files
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.rollout_filter import EXACT, PAGE, RolloutFilter
from outrider.view.text_search import PATIENCE, Searched

CHOICES = ("split", "model", "test_set", "level", "verdict", "stage", "stream", "context", "stop")
"""Filters whose values the page lists for selection."""
_MOST_CHOICES = 40
_PREVIEW = 240  # characters that the list shows per text


class Listing(NamedTuple):
    """The rows of one page, with the beginning of each text, and counts over all pages.

    Attributes:
        tokens: total tokens of all selected rollouts; None if the rollout files have no token counts.
        searched: progress of the text search; None if the selection has no text search.
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
    """Return the requested page of a selection."""
    source, values, searched = selected(run, chosen)
    counts = run.rows(
        "SELECT count(*) AS total, count(*) FILTER (outcome = 'correct') AS correct, count(outcome) AS verified, "
        f"sum(tokens) AS tokens FROM {source}",
        values,
    )[0]
    # sort row ids first: on a late page, sorting whole rows would be slow
    places = f"SELECT rowid FROM {source} ORDER BY {chosen.order()} LIMIT {PAGE} OFFSET {(chosen.page - 1) * PAGE}"
    rows = run.rows(f"SELECT * FROM seen WHERE rowid IN ({places}) ORDER BY {chosen.order()}", values)
    texts = texts_of(run, rows, ["text"], _PREVIEW)
    return Listing([row | texts.get((row["file"], row["row"]), {}) for row in rows], searched=searched, **counts)


def selected(
    run: OpenedRun, chosen: RolloutFilter, patience: float | None = PATIENCE
) -> tuple[str, list[Any], Searched | None]:
    """Return an SQL query for the selected rows, the query's parameters, and the progress of the text search; the
    progress is None without a text search.

    Args:
        run: the run.
        chosen: the selection.
        patience: maximum seconds to wait for the text search. If None, wait until the search has finished.
    """
    condition, values = chosen.condition()
    if not chosen.text:
        return f"(SELECT rowid, * FROM seen WHERE {condition})", values, None
    # texts are on disk, so read only files with rows that meet the other conditions, in the order of the list
    files = run.rows(
        f"SELECT file FROM seen WHERE {condition} GROUP BY file ORDER BY min(split <> 'train'), min(step), file", values
    )
    search = run.search(chosen.text, [row["file"] for row in files])
    searched = search.searched(patience)
    source = f"(SELECT rowid, * FROM seen SEMI JOIN {search.table} USING (file, row) WHERE {condition})"
    return source, values, searched


def texts_of(run: OpenedRun, rows: list[Row], names: Sequence[str], longest: int = 0) -> dict[tuple[str, int], Row]:
    """Return text columns of ``rows``, keyed by (file, row). Texts are truncated to ``longest`` characters; 0 means no
    limit."""
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
    """Return the values of each filter with the number of rollouts per value.

    A filter with too many values has an empty list. A filter with only one value is excluded.
    """
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
