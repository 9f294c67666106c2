"""Runs on disk in, ``report.html`` and ``report.json`` out, and the findings in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from outrider.errors import UserError
from outrider.record.disk import write_atomically
from outrider.report.build import build
from outrider.report.content import Report
from outrider.report.opened import open_any
from outrider.report.page import render
from outrider.report.watch import watch

_COLOURS = {"act": "bold red", "watch": "bold yellow"}


def report(paths: Sequence[Path], out: Path | None = None, columns: Mapping[str, str] | None = None) -> int:
    """Report the runs at ``paths`` and return 0, whatever was found.

    Both files go to ``out``; by default into the run's folder, beside a single file, and for several runs into the
    current folder. They replace those of an earlier report.

    Raises:
        UserError: a run cannot be read, or the disk refuses.
    """
    made, notices = made_of(paths, columns)
    folder = out or _folder(paths)
    page, data = folder / "report.html", folder / "report.json"
    write_atomically(page, render(made).encode())
    write_atomically(data, json.dumps(made.to_json(), allow_nan=False).encode() + b"\n")
    console = Console()
    for notice in notices:
        Console(stderr=True).print(notice, soft_wrap=True, markup=False, highlight=False)
    tell(made, console)
    console.print(f"\n{page}\n{data}", soft_wrap=True, markup=False, highlight=False)
    return 0


def report_live(paths: Sequence[Path], port: int, columns: Mapping[str, str] | None = None) -> int:
    """Serve the report of runs that go on, on this machine alone, until Ctrl-C; nothing is written. Returns 0.

    Raises:
        UserError: a run cannot be read, or the port cannot be had.
    """
    watch(lambda: render(made_of(paths, columns)[0]), paths, port)
    return 0


def made_of(paths: Sequence[Path], columns: Mapping[str, str] | None = None) -> tuple[Report, list[str]]:
    """The report of the runs or dumps at ``paths``, and a sentence for everything that could not be read.

    Raises:
        UserError: a run cannot be read at all, or is given twice.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("the same run is given twice")
    runs = [open_any(path, columns) for path in paths]
    if len({run.name for run in runs}) < len(runs):
        runs = [replace(run, name=str(path)) for run, path in zip(runs, paths, strict=True)]
    try:
        return build(runs), [notice for run in runs for notice in run.notices]
    finally:
        for run in runs:
            run.db.close()


def tell(made: Report, console: Console) -> None:
    """Print the findings, worst first: what was seen, then what to try. Every check is accounted for."""
    console.print(Text(made.title, "bold"))
    for finding in made.findings:
        where = f" ({finding.run})" if finding.run else ""
        console.print(Text.assemble("\n", (f"{finding.severity}: {finding.name}", _COLOURS[finding.severity]), where))
        console.print(Padding(Text(finding.sentence), (0, 0, 0, 2)))
        for advice in finding.advice:
            console.print(Padding(Text(f"- {advice}", "dim"), (0, 0, 0, 2)))
    found = {finding.name for finding in made.findings}
    quiet = [name for name in made.checked if name.rsplit(": ", 1)[-1] not in found]
    if quiet:
        console.print(Text.assemble("\n", ("checked and not found: ", "bold"), ", ".join(quiet)))
    for name, why in made.skipped.items():
        console.print(Text.assemble((f"not checked: {name}", "bold"), (f", which needs {why}", "dim")))


def _folder(paths: Sequence[Path]) -> Path:
    if len(paths) > 1:
        return Path()
    return paths[0] if paths[0].is_dir() else paths[0].parent
