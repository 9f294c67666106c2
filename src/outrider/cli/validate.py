"""``outrider validate``: check a task before training for wrong gold answers, duplicates, held-out problems in the
training data, and prompts that are too long."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_overrides, add_setting, folder, print_yaml


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("validate", help="check a task's data", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "task",
        metavar="TASK",
        help='task to check: a name such as countdown, JSON such as {"table": {…}}, a YAML file, or a recipe',
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="model whose tokenizer counts the tokens of prompts (default: the recipe's model)",
    )
    add_overrides(parser, "task.table.verifier=exact near=0.8 rejected=0")
    add_setting(parser)
    parser.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder in which validate.md and validate.json are saved (default: nothing is saved)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the task, or print the resolved configuration."""
    from outrider.api.validation import task_data
    from outrider.config import Validate, load_options

    data = task_data(arguments.task, arguments.setting)
    if arguments.model is not None:
        data["model"] = arguments.model
    validate = load_options(Validate, data, arguments.overrides, "validate")
    if arguments.dry_run:
        return print_yaml(validate.model_dump(mode="json"))
    from outrider.validate.validate_command import validate_command

    return validate_command(validate, arguments.out)
