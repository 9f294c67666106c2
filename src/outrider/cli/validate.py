"""``outrider validate``: check a task before training: right answers, repetitions, overlap, lengths of prompts."""

from __future__ import annotations

import argparse
from typing import Any

from outrider.cli.arguments import Commands, add_overrides, folder, print_yaml


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("validate", help="check a task's data", description=__doc__, allow_abbrev=False)
    parser.add_argument("task", metavar="TASK", help='countdown, {"table": {…}}, a YAML file of one, or a recipe')
    parser.add_argument("--model", metavar="MODEL", help="measure prompts with its tokenizer (model)")
    add_overrides(parser, "task.table.judge=exact near=0.8 rejected=0")
    parser.add_argument("--out", type=folder, metavar="DIR", help="write validate.md and validate.json there")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Put the checks together and run them, or show them."""
    from outrider.config import Validate, load_options

    for_recipe = [override for override in arguments.overrides if override.startswith("profile=")]
    data = asked(arguments.task, for_recipe)
    if arguments.model is not None:
        data["model"] = arguments.model
    overrides = [override for override in arguments.overrides if override not in for_recipe]
    validate = load_options(Validate, data, overrides, "validate")
    if arguments.dry_run:
        return print_yaml(validate.model_dump(mode="json"))
    from outrider.validate.command import validate_command

    return validate_command(validate, arguments.out)


def asked(text: str, profile: list[str]) -> dict[str, Any]:
    """The task that is meant, and with a recipe its model and length of responses."""
    from outrider.config import load_recipe, read_yaml, recipe_text
    from outrider.model.options import PolicyOptions
    from outrider.tasks import TASKS

    if text in TASKS or text.lstrip().startswith("{"):
        return {"task": read_yaml(text, f"TASK {text}")}
    file, written = recipe_text(text)
    data = read_yaml(written, file)
    if isinstance(data, dict) and len(data) == 1 and set(data) <= set(TASKS):
        return {"task": data}
    recipe = load_recipe(text, profile)
    resolved = recipe.resolved()
    policy = {key: resolved["policy"][key] for key in PolicyOptions.model_fields}
    limits = {"max_tokens": recipe.sample.max_tokens}
    return {"task": resolved["task"], "model": recipe.model, "policy": policy, **limits}
