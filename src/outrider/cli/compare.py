"""``outrider compare``: compare runs problem by problem, at equal numbers of generated tokens, and write HTML and
JSON."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_columns, columns, folder


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("compare", help="compare runs or models", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "runs",
        type=folder,
        nargs="+",
        metavar="RUN",
        help=(
            "run folder, folder of `evaluate --out`, or rollouts of another framework; the first RUN is the baseline"
        ),
    )
    parser.add_argument(
        "--out",
        type=folder,
        metavar="PLACE",
        help=(
            "page X.html, with X.json next to it; or a folder for compare.html and compare.json (default: "
            "the folder that contains the first RUN)"
        ),
    )
    add_columns(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the comparison."""
    from outrider.report.compare_command import compare_command

    return compare_command(arguments.runs, arguments.out, columns(arguments))
