"""Reports on a run: writes ``report.html`` and ``report.json``, and prints the findings (problems that a check
found)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from outrider.errors import UserError
from outrider.record.disk import write_atomically
from outrider.report.build import build
from outrider.report.content import Report
from outrider.report.opened import open_any
from outrider.report.page import render
from outrider.report.places import ReportFiles, beside, report_files
from outrider.report.watch import watch

COLOURS = {"act": "bold red", "watch": "bold yellow"}


def report_command(path: Path, out: Path | None = None, columns: Mapping[str, str] | None = None) -> int:
    """Report on the run at ``path``, and return 0 regardless of the findings.

    Writes an HTML file and a JSON file (:func:`outrider.report.places.report_files`), by default to the run's folder.
    If ``path`` is a file, its parent folder is used. Files of an earlier report are overwritten. To write elsewhere,
    set ``out`` to an HTML file or folder.

    Raises:
        UserError: the run cannot be read, ``out`` is neither an HTML file nor a folder, or a file cannot be written.
    """
    files = report_files(out or beside(path), "report")
    made, notices = made_of(path, columns)
    console = Console()
    written = write(made, files)
    print_notices(notices)
    print_findings(made, console)
    console.print("", *written, sep="\n", soft_wrap=True, markup=False, highlight=False)
    return 0


def report_live(path: Path, port: int, columns: Mapping[str, str] | None = None) -> int:
    """Serve the report of a run in progress, on localhost only, until the user presses Ctrl-C. Write no files and
    return 0.

    Raises:
        UserError: the run cannot be read, or the port is not available.
    """
    watch(lambda: render(made_of(path, columns)[0]), [path], port)
    return 0


def made_of(path: Path, columns: Mapping[str, str] | None = None) -> tuple[Report, list[str]]:
    """Return the report on the rollouts at ``path``, and sentences on how the files were read, for example one for each
    unreadable file.

    Raises:
        UserError: no file can be read, or a file disappeared during reading. If a run is resumed at an earlier step, it
            moves the files of later steps away.
    """
    run = open_any(path, columns)
    try:
        return replace(build(run), commands={"": shown_by(path)}), run.notices
    except duckdb.IOException as error:
        raise UserError(f"{path} changed while it was read: {str(error).splitlines()[0]}") from error
    finally:
        run.db.close()


def shown_by(path: Path) -> str:
    """Return the command that shows the rollouts at ``path``: ``outrider show`` for a run, ``outrider view`` for other
    files."""
    return f"outrider {'show' if (path / 'rollouts').is_dir() else 'view'} {shlex.quote(str(path))}"


def write(made: Report, files: ReportFiles) -> ReportFiles:
    """Write the page and its JSON, each atomically, and return their paths.

    Raises:
        UserError: a file cannot be written.
    """
    write_atomically(files.page, render(made).encode())
    write_atomically(files.data, json.dumps(made.to_json(), allow_nan=False).encode() + b"\n")
    return files


def print_notices(notices: Sequence[str]) -> None:
    """Print each notice as one line on standard error."""
    for notice in notices:
        Console(stderr=True).print(notice, soft_wrap=True, markup=False, highlight=False)


def print_findings(made: Report, console: Console) -> None:
    """Print the findings with advice, most severe first. Then print which checks found no problem and which were
    skipped."""
    console.print(Text(made.title, "bold"))
    if made.opening is not None:
        console.print(Text(made.opening.text.replace("\n\n", " ").replace("`", "")))
    for finding in made.findings:
        console.print(Text.assemble("\n", (f"{finding.severity}: {finding.name}", COLOURS[finding.severity])))
        console.print(Padding(Text(finding.sentence), (0, 0, 0, 2)))
        for advice in finding.advice:
            console.print(Padding(Text(f"- {advice}", "dim"), (0, 0, 0, 2)))
    result = {finding.name for finding in made.findings}
    quiet = [name for name in made.checked if name not in result]
    if quiet:
        console.print(Text.assemble("\n", ("checked and not found: ", "bold"), ", ".join(quiet)))
    for why in dict.fromkeys(made.skipped.values()):
        names = [name for name, lacking in made.skipped.items() if lacking == why]
        needs = "which needs" if len(names) == 1 else "which need"
        console.print(Text.assemble((f"not checked: {', '.join(names)}", "bold"), (f", {needs} {why}", "dim")))
