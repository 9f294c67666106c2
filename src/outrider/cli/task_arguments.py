"""The arguments that specify the task for commands without a recipe: ``--task``, or ``--suite`` and ``--data``."""

from __future__ import annotations

import argparse
from typing import Any

from outrider.errors import UserError


def add_task(parser: argparse.ArgumentParser) -> None:
    """Add ``--task``, ``--suite`` and ``--data``. Either ``--task`` or ``--suite`` is required."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument(
        "--task",
        metavar="TASK",
        help=(
            'task with the problems and the verifier: a name such as countdown, JSON such as {"table": {…}}, or a YAML '
            "file"
        ),
    )
    either.add_argument(
        "--suite",
        metavar="NAME",
        help="suite of several test sets, instead of a task: math, or a YAML file (docs/suites.md)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder that contains the test sets of --suite (default: download them from the Hugging Face Hub)",
    )


def task_options(arguments: argparse.Namespace) -> Any:
    """Return the task that the arguments specify, as it would be written under ``task`` in a recipe.

    Raises:
        UserError: ``--task`` is not valid YAML, or ``--data`` is given without ``--suite``.
    """
    from outrider.api.task_argument import task_of

    if arguments.suite is not None:
        return {"suite": {"suite": arguments.suite, "data": arguments.data}}
    if arguments.data is not None:
        raise UserError("--data is the folder of a suite's files; a table names its own (--task)")
    return task_of(arguments.task, "--task")
