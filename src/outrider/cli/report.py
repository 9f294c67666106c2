"""``outrider report``: what happened in a run, as one page, as JSON and as findings in the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path

from outrider.cli.arguments import Commands
from outrider.errors import UserError


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("report", help="see what happened in a run", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="run folder, or a file or folder of rollouts that another framework wrote (docs/import.md)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where report.html and report.json go (default: RUN)")
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=FIELD",
        help="which field of a dump is which column: success='reward >= 1', problem=prompt",
    )
    parser.add_argument("--watch", action="store_true", help="serve the page here and follow the run until Ctrl-C")
    parser.add_argument("--port", type=int, default=8765, metavar="N", help="of --watch (8765)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the report, or serve it."""
    if arguments.watch and arguments.out is not None:
        raise UserError("--watch serves the page and writes nothing; leave out --out")
    from outrider.report.command import report, report_live

    columns = dict(map(_column, arguments.column))
    if arguments.watch:
        return report_live(arguments.runs, arguments.port, columns)
    return report(arguments.runs, arguments.out, columns)


def _column(text: str) -> tuple[str, str]:
    name, equals, field = text.partition("=")
    if not (name and equals and field):
        raise UserError(f"--column {text}: name a column and a field, such as --column problem=prompt")
    return name.strip(), field.strip()
