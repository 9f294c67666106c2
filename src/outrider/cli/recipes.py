"""``outrider recipes``: list the shipped recipes, or show one."""

from __future__ import annotations

import argparse
import sys

from outrider.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "recipes", help="list the shipped recipes, or show one", description=__doc__, allow_abbrev=False
    )
    actions = parser.add_subparsers(metavar="show NAME")
    show = actions.add_parser("show", help="print a recipe's file, and its credit on a worked group")
    show.add_argument("name", metavar="RECIPE")
    show.set_defaults(run=run_show)
    parser.set_defaults(run=run_list)


def run_list(arguments: argparse.Namespace) -> int:
    """Name, paper and summary of every shipped recipe, one line each."""
    from outrider.config import list_recipes

    recipes = list_recipes()
    name_width, paper_width = max(len(r.name) for r in recipes), max(len(r.paper) for r in recipes)
    for recipe in recipes:
        sys.stdout.write(f"{recipe.name:<{name_width}}  {recipe.paper:<{paper_width}}  {recipe.summary}\n")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """The file as it was written, the profile that it shares with others, and what its credit makes of a group."""
    from rich.console import Console  # not at the top: other commands need no rich

    from outrider.cli.worked import credit_table
    from outrider.config import load_recipe, profile_text, recipe_text

    _, text = recipe_text(arguments.name)
    recipe = load_recipe(arguments.name)
    shared = profile_text(recipe.from_profile) if recipe.from_profile else ""
    sys.stdout.write(f"{text}\n# recipes/profiles/{recipe.from_profile}.yaml\n{shared}" if shared else text)
    console = Console()
    for stream in recipe.credit:
        console.print()
        console.print(credit_table(recipe, stream))
    return 0
