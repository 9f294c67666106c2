"""``outrider train``: run a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from outrider.cli.arguments import Commands, add_overrides, print_yaml
from outrider.config import load_recipe


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("train", help="train a policy with a recipe", description=__doc__, allow_abbrev=False)
    parser.add_argument("recipe", metavar="RECIPE", help="a shipped recipe (see `outrider recipes`) or a YAML file")
    add_overrides(parser, "train.steps=200 explore.0.n=16 profile=countdown")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder (default: runs/<recipe>-<seed>)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the run folder")
    parser.add_argument("--force", action="store_true", help="resume although configuration or data have changed")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load the recipe and train it, or show it."""
    recipe = load_recipe(arguments.recipe, arguments.overrides)
    if arguments.dry_run:
        return print_yaml(recipe.resolved())
    out = arguments.out or Path("runs") / f"{recipe.name}-{recipe.seed}"
    from outrider.train.run import train

    return train(recipe, out=out, resume=arguments.resume, force=arguments.force)
