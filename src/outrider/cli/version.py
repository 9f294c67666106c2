"""``outrider version``: print the version."""

from __future__ import annotations

import argparse
import sys

import outrider
from outrider.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the version of the installed package."""
    sys.stdout.write(f"outrider {outrider.__version__}\n")
    return 0
