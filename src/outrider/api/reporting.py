"""``outrider.report`` and ``outrider.compare``: what happened in a run, and what differs between several."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.report.content import Report


def report(path: str | Path, *, columns: Mapping[str, str] | None = None, out: str | Path | None = None) -> Report:
    """Examine a run and write ``report.html`` and ``report.json``: findings, curves, rollouts.

    The command ``outrider report`` calls the same code. What cannot be read is said on standard error.

    Args:
        path: a run folder, or rollouts of another framework.
        columns: field of a record for each column, of another framework's rollouts.
        out: a file that ends in ``.html``, with its JSON beside it, or a folder of both files; by default the run's.

    Raises:
        UserError: the run cannot be read, or ``out`` is neither a page nor a folder.
    """
    from outrider.report.places import beside, report_files
    from outrider.report.report_command import made_of, print_notices, write  # DuckDB, plots

    place = Path(path)
    files = report_files(beside(place) if out is None else Path(out), "report")
    made, notices = made_of(place, columns)
    write(made, files)
    print_notices(notices)
    return made


def compare(*runs: str | Path, columns: Mapping[str, str] | None = None, out: str | Path | None = None) -> Report:
    """Compare runs with the first of them at equal generated tokens, problem by problem.

    The command ``outrider compare`` calls the same code. What cannot be read is said on standard error.

    Args:
        runs: run folders, also of evaluations, or rollouts of another framework.
        columns: field of a record for each column, of another framework's rollouts.
        out: a file that ends in ``.html``, with its JSON beside it, or a folder for ``compare.html`` and
            ``compare.json``; None: they are not written.

    Raises:
        UserError: fewer than two runs, one is given twice, one cannot be read, or ``out`` is neither a page nor a
            folder.
    """
    from outrider.report.compare_command import compared
    from outrider.report.places import report_files
    from outrider.report.report_command import print_notices, write

    files = None if out is None else report_files(Path(out), "compare")
    made, _, notices = compared([Path(run) for run in runs], columns)
    if files is not None:
        write(made, files)
    print_notices(notices)
    return made
