"""A selection as a file: Parquet, CSV or JSON lines."""

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
"""Names of formats, and what they are to DuckDB."""


def exported(run: OpenedRun, chosen: RolloutFilter, form: str) -> Response:
    """All rollouts of a selection, of every page, in its order, with their texts.

    Raises:
        UserError: there is no such format.
    """
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r}; {nearest(form, FORMATS)}")
    source, values, _ = selected(run, chosen, patience=None)
    with tempfile.NamedTemporaryFile(prefix="outrider-view-", suffix=f".{form}", delete=False) as file:
        place = Path(file.name)
    query = (
        f"SELECT chosen.* EXCLUDE (rowid, file, row), prompt, text, answer, detail FROM {source} AS chosen "
        # a table has a rowid too, by which the order would be ambiguous
        f"LEFT JOIN (SELECT * FROM texts) AS texts USING (file, row) ORDER BY {chosen.order()}"
    )
    try:
        run.rows(f"COPY ({query}) TO '{place}' ({FORMATS[form]})", values)
    except duckdb.Error:
        place.unlink(missing_ok=True)
        raise
    return FileResponse(place, filename=f"rollouts.{form}", background=BackgroundTask(place.unlink, missing_ok=True))
