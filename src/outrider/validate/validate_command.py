"""``outrider validate``: checks a task, and prints and saves the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from outrider.config import Validate
from outrider.errors import UserError
from outrider.record.disk import write_atomically
from outrider.validate.check import TaskReport, check
from outrider.validate.page import as_data, as_markdown, as_table, overlap

SHOWN = 10  # maximum number of rejected answers, and of unusable rows, on the screen
FAILED = 3  # exit status if the task does not pass


def validate_command(options: Validate, out: Path | None) -> int:
    """Check a task with :func:`check_task`, and print the results. Return exit status 0 if the task passes, otherwise
    3."""
    report = check_task(options, out)
    _print(report, out)
    return 0 if report.passes else FAILED


def check_task(options: Validate, out: Path | None) -> TaskReport:
    """Check a task. If ``out`` is given, write ``validate.md`` and ``validate.json`` into the folder ``out``.

    Raises:
        UserError: :func:`outrider.validate.check.check` raises this error, ``out`` is a file, or ``out`` cannot be
            written.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose a folder for the report")
    report = check(options)
    if out is not None:
        write_atomically(out / "validate.md", as_markdown(report).encode())
        write_atomically(out / "validate.json", json.dumps(as_data(report), indent=1).encode())
    return report


def _print(report: TaskReport, out: Path | None) -> None:
    console = Console()
    console.print(as_table(report))
    if report.across is not None:
        console.print(overlap(report.across), markup=False, highlight=False)
    if report.environments is not None:
        console.print(report.environments.sentence, markup=False, highlight=False, soft_wrap=True)
    _list(console, list(report.refused), "errors that would stop a run", out)
    for side, graded, *_ in report.sides:
        if side.skipped:
            console.print(f"{side.source}: {side.skipped:,} rows are skipped as empty", soft_wrap=True)
        wrong = [f"{r.entry.place}: {r.verdict.outcome}: {r.response}" for r in graded.rejected] + side.refused
        _list(console, wrong, f"of {side.source}", out)


def _list(console: Console, lines: Sequence[str], of: str, out: Path | None) -> None:
    for line in lines[:SHOWN]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(lines) > SHOWN:
        where = "--out DIR writes all of them" if out is None else f"all are in {out / 'validate.md'}"
        console.print(f"… and {len(lines) - SHOWN:,} more {of} ({where})", soft_wrap=True)
