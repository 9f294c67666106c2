"""``outrider verl-config``: write a verl configuration that trains with a recipe (experimental)."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_setting, folder


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "verl-config",
        help="write a verl configuration that trains with a recipe (experimental)",
        description=__doc__,
        allow_abbrev=False,
    )
    parser.add_argument(
        "recipe", metavar="RECIPE", help="recipe to convert: a shipped recipe (see `outrider recipes`) or a YAML file"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="options of the recipe to change, by dotted key, e.g. train.steps=200",
    )
    add_setting(parser)
    parser.add_argument(
        "--out", type=folder, metavar="FILE", help="YAML file to write the configuration to (default: standard output)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Translate the recipe and write verl's configuration."""
    from outrider.integrations.verl_config_command import verl_config_command

    return verl_config_command(arguments.recipe, arguments.overrides, arguments.setting, arguments.out)
