"""``outrider report``: report on a run in an HTML page and a JSON file, and print findings in the terminal."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_columns, columns, folder
from outrider.errors import UserError


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report", help="report what happened in a run", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "runs",
        type=folder,
        nargs="+",
        metavar="RUN",
        help="run folder, or a file or folder of another framework's rollouts (docs/import.md)",
    )
    parser.add_argument(
        "--out",
        type=folder,
        metavar="PLACE",
        help=(
            "output file X.html (X.json is written next to it), or folder for report.html and report.json (default: "
            "RUN)"
        ),
    )
    add_columns(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="serve the page from this machine and update the page while the run goes on, until Ctrl-C",
    )
    parser.add_argument(
        "--port", type=int, default=8765, metavar="N", help="port on which --watch serves the page (default: 8765)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the report, or serve it as a live page."""
    path, *more = arguments.runs
    if more:
        raise UserError("a report is of one run; several are compared by `outrider compare A B …`")
    if arguments.watch and arguments.out is not None:
        raise UserError("--watch serves the page and writes nothing; leave out --out")
    from outrider.report.report_command import report_command, report_live

    if arguments.watch:
        return report_live(path, arguments.port, columns(arguments))
    return report_command(path, arguments.out, columns(arguments))
