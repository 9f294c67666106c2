"""``outrider train``: train a policy with a recipe."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from outrider.cli.arguments import Commands, add_overrides, add_setting, finish_dry_run, folder, print_yaml
from outrider.interrupts import interrupts_held

if TYPE_CHECKING:
    from outrider.config import Recipe


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("train", help="train a policy with a recipe", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="recipe to train with: a shipped recipe (see `outrider recipes`) or a YAML file",
    )
    add_overrides(parser, "train.steps=200 explore.0.n=16")
    add_setting(parser)
    parser.add_argument(
        "--out", type=folder, metavar="DIR", help="folder in which the run is saved (default: runs/<recipe>-<seed>)"
    )
    parser.add_argument("--resume", action="store_true", help="continue from the run folder's last checkpoint")
    parser.add_argument(
        "--force",
        action="store_true",
        help=(
            "train even if the memory estimate exceeds the machine's memory; resume even if the configuration changed"
        ),
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train with the recipe, or print the resolved recipe and its estimated cost."""
    from outrider.api.arguments import folder_of
    from outrider.config import load_recipe

    recipe = load_recipe(arguments.recipe, arguments.overrides, arguments.setting)
    if arguments.dry_run:
        return _dry_run(recipe, arguments.force)
    out = folder_of(recipe, arguments.out)
    from outrider.processes.warm import warm_ahead

    warm_ahead("outrider.commands.train_command", recipe.train.ranks)
    with interrupts_held():
        from outrider.commands.train_command import train_command

    return train_command(recipe, out=out, resume=arguments.resume, force=arguments.force)


def _dry_run(recipe: Recipe, force: bool) -> int:
    from outrider.estimate.auto import choose, with_values
    from outrider.model.places import local_config

    print_yaml(recipe.resolved())
    chosen = choose(recipe, local_config(recipe.model))
    recipe = with_values(recipe, chosen.values)
    _print_estimate(recipe, chosen.sentence)
    return _check(recipe, force)


def _check(recipe: Recipe, force: bool) -> int:
    from outrider.commands.time_probe import time_line
    from outrider.estimate.estimate import lacking, layout_of
    from outrider.estimate.time_estimate import amount_lines
    from outrider.model.places import local_config
    from outrider.preflight.check import wanted_by
    from outrider.preflight.local import checked_here
    from outrider.processes.devices import find_devices

    sys.stdout.writelines(f"# {line}\n" for line in amount_lines(recipe))
    checked = checked_here(recipe.task, wanted_by(recipe), recipe.model, recipe.policy)
    lacks = None if force else lacking(recipe, local_config(recipe.model))
    status = finish_dry_run(checked, lacks)
    if not checked.skipped:
        sys.stdout.write(f"# {time_line(recipe, layout_of(recipe, find_devices()).processes)}\n")
    return status


def _print_estimate(recipe: Recipe, sizes: str | None) -> None:
    """Print the run's estimated cost as comments, so that the output remains a valid recipe."""
    from outrider.estimate.estimate import estimate
    from outrider.model.places import local_config
    from outrider.preflight.recipe_warnings import recipe_warnings
    from outrider.screen.trackers import missing_trackers, unused_tracking

    names = recipe.train.trackers
    lines = [*filter(None, [sizes]), *estimate(recipe, local_config(recipe.model))]
    of_trackers = [*missing_trackers(names), *unused_tracking(names, recipe.train.tracking)]
    warnings = [f"warning: {warning}" for warning in [*recipe_warnings(recipe), *of_trackers]]
    sys.stdout.writelines(f"# {line}\n" for line in [*lines, *warnings])
