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
        out: folder of both files; by default the run's.

    Raises:
        UserError: the run cannot be read.
    """
    from outrider.report.report_command import folder_beside, made_of, print_notices, write  # DuckDB, plots

    place = Path(path)
    made, notices = made_of(place, columns)
    write(made, folder_beside(place) if out is None else Path(out), "report")
    print_notices(notices)
    return made


def compare(*runs: str | Path, columns: Mapping[str, str] | None = None, out: str | Path | None = None) -> Report:
    """Compare runs with the first of them at equal generated tokens, problem by problem.

    The command ``outrider compare`` calls the same code. What cannot be read is said on standard error.

    Args:
        runs: run folders, also of evaluations, or rollouts of another framework.
        columns: field of a record for each column, of another framework's rollouts.
        out: folder for ``compare.html`` and ``compare.json``; None: they are not written.

    Raises:
        UserError: fewer than two runs, one is given twice, or one cannot be read.
    """
    from outrider.report.compare_command import compared
    from outrider.report.report_command import print_notices, write

    made, _, notices = compared([Path(run) for run in runs], columns)
    if out is not None:
        write(made, Path(out), "compare")
    print_notices(notices)
    return made
