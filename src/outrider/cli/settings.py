"""``outrider settings``: list the shipped settings, where a recipe can be tried."""

from __future__ import annotations

import argparse
import sys

from outrider.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "settings", help="list the shipped settings, for --setting", description=__doc__, allow_abbrev=False
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Name and summary of every shipped setting, one line each."""
    from outrider.config import list_settings

    settings = list_settings()
    width = max(len(setting.name) for setting in settings)
    for setting in settings:
        sys.stdout.write(f"{setting.name:<{width}}  {setting.summary}\n")
    return 0
