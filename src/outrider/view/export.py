"""Exports a selection of rollouts as Parquet, CSV or JSON Lines."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from outrider.errors import UserError, nearest
from outrider.view.listing import selected
from outrider.view.opened_run import OpenedRun
from outrider.view.rollout_filter import RolloutFilter

FORMATS = {
    "csv": "FORMAT csv, HEADER",
    "jsonl": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
"""Export formats by name, with their DuckDB options."""


def exported(run: OpenedRun, chosen: RolloutFilter, form: str) -> Response:
    """Return all rollouts of a selection as a file, in the selection's order and with their texts.

    Raises:
        UserError: the format is unknown.
    """
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r}; {nearest(form, FORMATS)}")
    source, values, _ = selected(run, chosen, patience=None)
    with tempfile.NamedTemporaryFile(prefix="outrider-view-", suffix=f".{form}", delete=False) as file:
        place = Path(file.name)
    query = (
        f"SELECT chosen.* EXCLUDE (rowid, file, row), prompt, text, answer, detail FROM {source} AS chosen "
        # as a subquery, since the rowid of a table would make the order ambiguous
        f"LEFT JOIN (SELECT * FROM texts) AS texts USING (file, row) ORDER BY {chosen.order()}"
    )
    try:
        run.rows(f"COPY ({query}) TO '{place}' ({FORMATS[form]})", values)
    except duckdb.Error:
        place.unlink(missing_ok=True)
        raise
    return FileResponse(place, filename=f"rollouts.{form}", background=BackgroundTask(place.unlink, missing_ok=True))
