"""``outrider settings``: list the shipped settings (model, task, budget), or show one."""

from __future__ import annotations

import argparse
import sys

from outrider.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "settings", help="list the shipped settings, or show one", description=__doc__, allow_abbrev=False
    )
    actions = parser.add_subparsers(metavar="show NAME")
    show = actions.add_parser("show", help="print a setting's file")
    show.add_argument("name", metavar="SETTING")
    show.set_defaults(run=run_show)
    parser.set_defaults(run=run_list)


def run_show(arguments: argparse.Namespace) -> int:
    """Print a setting's file as written."""
    from outrider.config import text_of

    sys.stdout.write(text_of("setting", arguments.name)[1])
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Print name, summary and recommended recipe of every shipped setting, with one line per setting."""
    from outrider.config import list_settings

    settings = list_settings()
    width = max(len(setting.name) for setting in settings)
    for setting in settings:
        recommended = f" Recommended there: {setting.recommended}." if setting.recommended else ""
        sys.stdout.write(f"{setting.name:<{width}}  {setting.summary}{recommended}\n")
    return 0
