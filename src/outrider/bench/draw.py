"""What a finished bench writes, and the table that it prints."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from outrider.bench.begin import ENVIRONMENT
from outrider.bench.page import page, table
from outrider.bench.picture import frontier_figure
from outrider.bench.report import BenchReport
from outrider.bench.results import Measurements
from outrider.bench.tallies import COMPARED, UNTOUCHED, write_tallies
from outrider.record.disk import write_atomically


def draw(report: BenchReport, out: Path) -> None:
    """Write numbers, picture, table and page."""
    about = json.loads((out / ENVIRONMENT).read_bytes())
    results = report.to_json() | {"environment": about}
    reports = {COMPARED: report, UNTOUCHED: report.untouched}
    sets = {name: Measurements(one.before, one.again, one.arms) for name, one in reports.items() if one is not None}
    write_atomically(out / "numbers.csv", report.to_csv().encode())
    write_atomically(out / "tallies.csv", write_tallies(sets).encode())
    write_atomically(out / "results.json", json.dumps(results, indent=1, allow_nan=False).encode() + b"\n")
    image = io.BytesIO()
    frontier_figure(report).savefig(image, format="png")
    write_atomically(out / "frontier.png", image.getvalue())
    write_atomically(out / "table.md", (table(report) + "\n").encode())
    write_atomically(out / "page.md", page(report, about).encode())


def print_results(report: BenchReport, out: Path) -> None:
    """Print the table and the runs that failed."""
    console = Console()
    console.print(table(report), markup=False, highlight=False, soft_wrap=True)
    for sentence in report.failures:
        Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)
    console.print(f"everything is in {out}; read {out / 'page.md'}", highlight=False, soft_wrap=True)
