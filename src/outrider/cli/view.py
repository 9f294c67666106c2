"""``outrider view``: browse runs and rollouts in a web browser (read-only)."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_columns, columns, folder


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "view", help="browse rollouts in a web browser", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "runs",
        type=folder,
        nargs="+",
        metavar="RUN",
        help="run folder, or a file or folder of another framework's rollouts (docs/import.md)",
    )
    add_columns(parser)
    parser.add_argument(
        "--port",
        type=int,
        default=8766,
        metavar="N",
        help="port on which the pages are served; 0: any free port (default: 8766)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="network address to listen on (default: 127.0.0.1); any address other than loopback requires a token",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve the viewer until Ctrl-C."""
    from outrider.model.places import local_tokenizer
    from outrider.view.view_command import view_command

    return view_command(arguments.runs, local_tokenizer, arguments.port, arguments.host, columns(arguments))
