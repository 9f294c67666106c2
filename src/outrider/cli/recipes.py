"""``outrider recipes``: list the shipped recipes, or show one."""

from __future__ import annotations

import argparse
import sys

from outrider.cli.arguments import Commands, add_setting


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "recipes", help="list the shipped recipes, or show one", description=__doc__, allow_abbrev=False
    )
    actions = parser.add_subparsers(metavar="show NAME")
    show = actions.add_parser("show", help="print a recipe's file, and its credit on a worked group")
    show.add_argument("name", metavar="RECIPE")
    add_setting(show)
    show.set_defaults(run=run_show)
    parser.set_defaults(run=run_list)


def run_list(arguments: argparse.Namespace) -> int:
    """Name, paper and summary of every shipped recipe, one line each, and which are recommended where."""
    from outrider.config import list_recipes, list_settings

    recipes = list_recipes()
    name_width, paper_width = max(len(r.name) for r in recipes), max(len(r.paper) for r in recipes)
    for recipe in recipes:
        sys.stdout.write(f"{recipe.name:<{name_width}}  {recipe.paper:<{paper_width}}  {recipe.summary}\n")
    settings = [setting for setting in list_settings() if setting.recommended]
    if settings:
        sys.stdout.write("\nRecommended by setting, with the values that were compared:\n")
        for setting in settings:
            words = [setting.recommended, "--setting", setting.name, *setting.values]
            sys.stdout.write(f"  outrider train {' '.join(words)}\n")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """The file as it was written, the setting that it is tried in, and what its credit makes of a group."""
    from rich.console import Console  # not at the top: other commands need no rich

    from outrider.cli.worked import credit_table
    from outrider.config import load_recipe, setting_texts, text_of

    recipe = load_recipe(arguments.name, setting=arguments.setting)
    sys.stdout.write(text_of("recipe", arguments.name)[1])
    for where, text in setting_texts(arguments.name, arguments.setting):
        sys.stdout.write(f"\n# {where}\n{text}")
    console = Console()
    for stream in recipe.credit:
        console.print()
        console.print(credit_table(recipe, stream))
    return 0
