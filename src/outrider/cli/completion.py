"""``outrider completion``: a script by which a shell completes commands, options, recipes and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from outrider.cli.arguments import Commands, folder
from outrider.errors import UserError


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion", help="print a script that completes commands in a shell", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("shell", choices=("bash", "zsh"), help='in ~/.bashrc: eval "$(outrider completion bash)"')
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the script. It is static: another version, with other recipes and options, needs it made anew.

    Raises:
        UserError: the package shtab is missing.
    """
    try:
        import shtab
    except ModuleNotFoundError:
        raise UserError("completion needs the package shtab: pip install 'outrider[completion]'") from None
    from outrider.cli import build_parser
    from outrider.config import list_recipes

    parser = build_parser()
    recipes = dict.fromkeys(("bash", "zsh"), "_outrider_recipes")
    for action in actions_of(parser):
        if action.type is folder or "RECIPE" in str(action.metavar):
            action.complete = shtab.FILE if action.type is folder else recipes  # type: ignore[attr-defined]
    names = " ".join(recipe.name for recipe in list_recipes())
    preamble = {
        "bash": f"_outrider_recipes() {{ compgen -W '{names}' -- \"$1\"; compgen -f -X '!*.yaml' -- \"$1\"; }}",
        "zsh": f"_outrider_recipes() {{ compadd {names}; _files -g '*.yaml' }}",
    }
    sys.stdout.write(f"{shtab.complete(parser, arguments.shell, preamble=preamble[arguments.shell])}\n")
    return 0


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of a parser and of its commands, all the way down."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions_of(command)
