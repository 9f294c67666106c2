"""Writes the result files of a finished bench (a comparison of recipes), and prints the results."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from outrider.bench.begin import ENVIRONMENT
from outrider.bench.content import content
from outrider.bench.page import page, table
from outrider.bench.picture import frontier_figure
from outrider.bench.report import BenchReport
from outrider.bench.results import Measurements
from outrider.bench.tallies import COMPARED, FINAL_TEST, write_tallies
from outrider.bench.verdict import verdict
from outrider.record.disk import write_atomically
from outrider.report.page import render


def draw(report: BenchReport, out: Path) -> None:
    """Write the results to ``out``: numbers as CSV and JSON files, a figure, the results table, and a page in Markdown
    and in HTML."""
    about = json.loads((out / ENVIRONMENT).read_bytes())
    results = report.to_json() | {"environment": about}
    reports = {COMPARED: report, FINAL_TEST: report.final_test}
    sets = {name: Measurements(one.before, one.again, one.arms) for name, one in reports.items() if one is not None}
    write_atomically(out / "numbers.csv", report.to_csv().encode())
    write_atomically(out / "tallies.csv", write_tallies(sets).encode())
    write_atomically(out / "results.json", json.dumps(results, indent=1, allow_nan=False).encode() + b"\n")
    image = io.BytesIO()
    frontier_figure(report).savefig(image, format="png")
    write_atomically(out / "frontier.png", image.getvalue())
    write_atomically(out / "table.md", (table(report) + "\n").encode())
    write_atomically(out / "page.md", page(report, about).encode())
    write_atomically(out / "bench.html", render(content(report, about)).encode())


def print_results(report: BenchReport, out: Path) -> None:
    """Print a summary of which recipes are better, the results table, and the errors of failed runs."""
    console = Console()
    for sentence in verdict(report):
        console.print(sentence.replace("`", ""), markup=False, highlight=False)
    console.print()
    console.print(table(report), markup=False, highlight=False, soft_wrap=True)
    for sentence in report.failures:
        Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)
    console.print(f"results are in {out}; open {out / 'bench.html'}", highlight=False, soft_wrap=True)
