"""``outrider.report`` and ``outrider.compare``, which report on one run and compare several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.report.content import Report


def report(path: str | Path, *, columns: Mapping[str, str] | None = None, out: str | Path | None = None) -> Report:
    """Check a run for issues, and write ``report.html`` and ``report.json`` with findings (detected issues), curves and
    rollouts.

    The command ``outrider report`` calls the same code. Notices about unreadable parts of the run are printed to
    standard error.

    Args:
        path: a run folder, or rollouts of another framework.
        columns: for rollouts of another framework, a map from Outrider's column names to the framework's field names,
            such as ``{"reward": "score"}``.
        out: a file that ends in ``.html`` (the JSON file is written next to it), or a folder for both files; default:
            the run folder.

    Raises:
        UserError: the run cannot be read, or ``out`` is neither an ``.html`` file nor a folder.
    """
    from outrider.report.places import beside, report_files
    from outrider.report.report_command import made_of, print_notices, write  # imports DuckDB

    place = Path(path)
    files = report_files(beside(place) if out is None else Path(out), "report")
    made, notices = made_of(place, columns)
    write(made, files)
    print_notices(notices)
    return made


def compare(*runs: str | Path, columns: Mapping[str, str] | None = None, out: str | Path | None = None) -> Report:
    """Compare each run with the first run, problem by problem, at equal numbers of generated tokens.

    The command ``outrider compare`` calls the same code. Notices about unreadable parts of a run are printed to
    standard error.

    Args:
        runs: run or evaluation folders, or rollouts of another framework.
        columns: for rollouts of another framework, a map from Outrider's column names to the framework's field names,
            such as ``{"reward": "score"}``.
        out: a file that ends in ``.html`` (the JSON file is written next to it), or a folder for ``compare.html`` and
            ``compare.json``; None: no files are written.

    Raises:
        UserError: fewer than two runs are given, a run is given twice or cannot be read, or ``out`` is neither an
            ``.html`` file nor a folder.
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
