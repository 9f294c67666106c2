"""``outrider completion``: print a script for shell completion of commands, options, recipes, settings and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from outrider.cli.arguments import Commands, folder
from outrider.errors import UserError


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion", help="print a script for shell completion", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "shell", choices=("bash", "zsh"), help='shell of the script; in ~/.bashrc: eval "$(outrider completion bash)"'
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script. The script contains a fixed list of names, so print a new script after updating
    Outrider.

    Raises:
        UserError: the package shtab is missing.
    """
    try:
        import shtab
    except ModuleNotFoundError:
        raise UserError("completion needs the package shtab: pip install 'outrider[completion]'") from None
    from outrider.config import list_recipes, list_settings

    parser: argparse.ArgumentParser = arguments.parser
    names = {"RECIPE": [recipe.name for recipe in list_recipes()], "SETTING": [s.name for s in list_settings()]}
    for action in actions_of(parser):
        if action.type is folder:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        for kind in names:
            if kind in str(action.metavar):
                action.complete = dict.fromkeys(("bash", "zsh"), f"_outrider_{kind}")  # type: ignore[attr-defined]
    functions = "\n".join(_function(arguments.shell, kind, " ".join(known)) for kind, known in names.items())
    sys.stdout.write(f"{shtab.complete(parser, arguments.shell, preamble=functions)}\n")
    return 0


def _function(shell: str, kind: str, names: str) -> str:
    """Return a shell function that completes ``names`` (of shipped recipes, for example) and the paths of YAML
    files."""
    if shell == "bash":
        return f"_outrider_{kind}() {{ compgen -W '{names}' -- \"$1\"; compgen -f -X '!*.yaml' -- \"$1\"; }}"
    return f"_outrider_{kind}() {{ compadd {names}; _files -g '*.yaml' }}"


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield all arguments of a parser, including those of its commands and subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions_of(command)
