"""Chooses the output paths of a report's page and JSON, from the option ``--out`` of ``report`` and ``compare``."""

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
    """Return the paths of the page and the JSON for a given ``--out``.

    A path that ends in ``.html`` is the page; the path of the JSON differs only in its suffix. An existing folder, or a
    path without a suffix, is the folder of the files ``name.html`` and ``name.json``.

    Raises:
        UserError: the path is neither a folder nor an HTML file.

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
    """Return the folder for the report on ``path``: ``path`` itself if it is a folder, otherwise its parent folder."""
    return path if path.is_dir() else path.parent


def around(first: Path) -> Path:
    """Return the folder for a comparison of several runs: the first run's parent folder."""
    return first.resolve().parent
