"""Output paths of a report's page and JSON; ``report`` and ``compare`` treat ``--out`` equally."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from outrider.errors import UserError

PAGES = (".html", ".htm")


class ReportFiles(NamedTuple):
    """The two files of a report."""

    page: Path
    data: Path


def report_files(out: Path, name: str) -> ReportFiles:
    """The files that ``--out`` names.

    A path that ends in ``.html`` is the page itself, and its JSON lies beside it under the same name. A folder that
    exists, and a name without a suffix, get ``name.html`` and ``name.json``.

    Raises:
        UserError: the path ends otherwise and is no folder, or is a file that is no page.

    >>> report_files(Path("there/x.html"), "report").data.as_posix()
    'there/x.json'
    >>> report_files(Path("there"), "report").page.as_posix()
    'there/report.html'
    """
    if out.is_dir() or (not out.suffix and not out.exists()):
        return ReportFiles(out / f"{name}.html", out / f"{name}.json")
    if out.suffix.lower() in PAGES:
        return ReportFiles(out, out.with_suffix(".json"))
    raise UserError(
        f"--out {out} is neither a folder nor a page: name a file that ends in .html, or a folder (created if its "
        "name has no dot)"
    )


def beside(path: Path) -> Path:
    """The folder for the report of one run: the run's own, or the one that holds a file."""
    return path if path.is_dir() else path.parent


def around(first: Path) -> Path:
    """The folder for the comparison of several runs: the one that holds the first of them."""
    return first.resolve().parent
