"""``outrider recipes``: list the shipped recipes, search them, or show one."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.cli.arguments import Commands, add_setting
from outrider.errors import UserError, nearest

if TYPE_CHECKING:
    from outrider.config import RecipeInfo


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "recipes", help="list the shipped recipes, search them, or show one", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD|show RECIPE",
        help=(
            "words to search for in names, papers and summaries of recipes; or `show RECIPE`, which prints a "
            "recipe's file and the advantages that it assigns in an example group"
        ),
    )
    parser.add_argument(
        "--goal",
        metavar="GOAL",
        help="goal for which to list recipes, those with the best evidence first; `--goal list` lists the goals",
    )
    add_setting(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show one recipe, or list the requested recipes."""
    words = arguments.words
    if arguments.goal is not None:
        if words or arguments.setting is not None:
            raise UserError("--goal takes no words and no --setting")
        return run_goal(arguments.goal)
    if words[:1] == ["show"]:
        if len(words) != 2:
            raise UserError("`outrider recipes show` takes the name of one recipe, as in `outrider recipes show grpo`")
        return run_show(words[1], arguments.setting)
    if arguments.setting is not None:
        raise UserError("--setting goes with `outrider recipes show RECIPE`")
    return run_list(words)


def run_list(words: Sequence[str] = ()) -> int:
    """Print name, paper and summary of every recipe that contains all the given words. Without words, also print
    recommendations.

    Each recipe is one line, which is wrapped at word boundaries on a terminal.

    Raises:
        UserError: no recipe contains all the given words.
    """
    from outrider.config import list_recipes, list_settings

    shipped = list_recipes()
    recipes = [recipe for recipe in shipped if all(_has(recipe, word) for word in words)]
    if not recipes:
        named = " and ".join(repr(word) for word in words)
        close = nearest(words[0], [recipe.name for recipe in shipped])
        close = close if close.startswith("did you mean") else "`outrider recipes` lists all"
        raise UserError(f"no shipped recipe has {named} in its name, paper or summary ({close})")
    name_width, paper_width = max(len(r.name) for r in recipes), max(len(r.paper) for r in recipes)
    for recipe in recipes:
        sys.stdout.write(_wrapped(f"{recipe.name:<{name_width}}  {recipe.paper:<{paper_width}}  {recipe.summary}"))
    if not words:
        from outrider.config.goals import first_recipes, goals

        sys.stdout.write("\n" + _wrapped(f"Begin with one of {', '.join(first_recipes())}."))
        sys.stdout.write(_wrapped(f"By goal, best evidence first: outrider recipes --goal {'|'.join(goals())}"))
    settings = [setting for setting in list_settings() if setting.recommended and not words]
    if settings:
        sys.stdout.write("\nRecommended by setting, with the values that were compared:\n")
        for setting in settings:
            named = " ".join([setting.recommended, "--setting", setting.name, *setting.values])
            sys.stdout.write(f"  outrider train {named}\n")
    return 0


def run_goal(name: str) -> int:
    """Print the recipes for a goal such as ``keep-coverage``, and how far experiments support each recipe. For the name
    ``list``, print all goals.

    Raises:
        UserError: the goal does not exist.
    """
    from outrider.config.goals import goals

    known = goals()
    if name == "list":
        for goal, of in known.items():
            sys.stdout.write(_wrapped(f"{goal:<{max(map(len, known))}}  {of.about}"))
        return 0
    if name not in known:
        raise UserError(f"there is no goal {name!r} ({nearest(name, known)})")
    sys.stdout.write(_wrapped(f"{name}: {known[name].about}"))
    recipes = known[name].recipes
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        sys.stdout.write(_wrapped(f"{recipe.name:<{width}}  {recipe.evidence:<9}  {recipe.note}"))
    return 0


def run_show(name: str, setting: str | None) -> int:
    """Print the recipe's YAML file and the files of its setting (model, task and budget). Then print the advantages
    that the recipe assigns to an example group."""
    from rich.console import Console  # imported here, since other commands do not need rich

    from outrider.cli.worked import credit_table
    from outrider.config import load_recipe, setting_texts, text_of

    recipe = load_recipe(name, setting=setting)
    sys.stdout.write(text_of("recipe", name)[1])
    for where, text in setting_texts(name, setting):
        sys.stdout.write(f"\n# {where}\n{text}")
    console = Console()
    for stream in recipe.credit:
        console.print()
        console.print(credit_table(recipe, stream))
    return 0


def _has(recipe: RecipeInfo, word: str) -> bool:
    return word.casefold() in " ".join(recipe).casefold()


def _wrapped(line: str) -> str:
    """Return a line, wrapped at word boundaries if stdout is a terminal, and otherwise unchanged."""
    if not sys.stdout.isatty():
        return f"{line}\n"
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) + "\n"
