"""``outrider validate``: check a task before training: right answers, repetitions, overlap, lengths of prompts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from outrider.cli.arguments import Commands, add_overrides, add_setting, folder, print_yaml
from outrider.errors import UserError

if TYPE_CHECKING:
    from outrider.config import Recipe


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("validate", help="check a task's data", description=__doc__, allow_abbrev=False)
    parser.add_argument("task", metavar="TASK", help='countdown, {"table": {…}}, a YAML file of one, or a recipe')
    parser.add_argument("--model", metavar="MODEL", help="measure prompts with its tokenizer (model)")
    add_overrides(parser, "task.table.verifier=exact near=0.8 rejected=0")
    add_setting(parser)
    parser.add_argument("--out", type=folder, metavar="DIR", help="write validate.md and validate.json there")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Put the checks together and run them, or show them."""
    from outrider.config import Validate, load_options

    data = task_data(arguments.task, arguments.setting)
    if arguments.model is not None:
        data["model"] = arguments.model
    validate = load_options(Validate, data, arguments.overrides, "validate")
    if arguments.dry_run:
        return print_yaml(validate.model_dump(mode="json"))
    from outrider.validate.validate_command import validate_command

    return validate_command(validate, arguments.out)


def task_data(text: str, setting: str | None) -> dict[str, Any]:
    """The task that is meant, and with a recipe its model and length of responses.

    Raises:
        UserError: no such task or recipe, or a setting for a task.
    """
    from outrider.config import load_recipe

    if (task := _task(text)) is None:
        return _of_recipe(load_recipe(text, setting=setting))
    if setting is not None:
        raise UserError(f"--setting {setting}: {text} is a task already; a setting is for a recipe")
    return {"task": task}


def _task(text: str) -> Any:
    """What is asked for as data, unless it is a recipe."""
    from outrider.config import read_yaml, text_of
    from outrider.tasks import OLD_TASKS, TASKS

    if text in TASKS or text.lstrip().startswith("{"):
        return read_yaml(text, f"TASK {text}")
    file, written = text_of("recipe", text)
    data = read_yaml(written, file)
    return data if isinstance(data, dict) and len(data) == 1 and set(data) <= {*TASKS, *OLD_TASKS} else None


def _of_recipe(recipe: Recipe) -> dict[str, Any]:
    from outrider.model.options import PolicyOptions

    resolved = recipe.resolved()
    policy = {key: resolved["policy"][key] for key in PolicyOptions.model_fields}
    limits = {
        "max_tokens": recipe.sample.max_tokens,
        "step_problems": recipe.train.problems,
        "evaluate": resolved["evaluate"],
    }
    return {"task": resolved["task"], "model": recipe.model, "policy": policy, **limits}
