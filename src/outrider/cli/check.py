"""``outrider check``: test your own component (such as a baseline) with the tests that all shipped components pass."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_overrides


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check", help="run the contract tests on your own component", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "component", metavar="COMPONENT", help="import path of the component's class, such as my_methods.py:Retry"
    )
    add_overrides(parser, "n=4")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the component with the options given on the command line."""
    from outrider.testing.check_command import check_command

    return check_command(arguments.component, arguments.overrides)
