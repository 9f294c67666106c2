"""Runs to browse, and requests to the viewer without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from plain_rows import random_rows, table
from starlette.testclient import TestClient

from outrider.model.places import local_tokenizer
from outrider.view.application import Application
from outrider.view.opened_run import OpenedRun

RUN = Path(__file__).parent.parent / "run_of_0_2"


def plain_run(folder: Path, rows: list[dict[str, Any]] | None = None, name: str = "rows") -> Path:
    """A file of plain rollouts."""
    path = folder / f"{name}.parquet"
    pq.write_table(table(random_rows(0) if rows is None else rows), path)
    return path


def client_of(*runs: OpenedRun, token: str = "", host: str = "localhost") -> TestClient:
    app = Application(runs, local_tokenizer).app(token)
    return TestClient(app, base_url=f"http://{host}", follow_redirects=False, raise_server_exceptions=True)
