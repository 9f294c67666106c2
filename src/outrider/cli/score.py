"""``outrider score``: verify saved generations, without a model."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_columns, columns, folder
from outrider.cli.task_arguments import add_task, task_options


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("score", help="verify saved generations", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "file",
        type=folder,
        metavar="FILE",
        help="saved responses to verify: a run folder, or rollouts of another framework (docs/import.md)",
    )
    add_task(parser)
    parser.add_argument(
        "--problems",
        type=int,
        metavar="P",
        help="number of held-out problems to score (default: all, if the task has finitely many)",
    )
    add_columns(parser)
    parser.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder in which verdicts, metrics and the table of results are saved (default: nothing is saved)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Verify the saved generations with the task's verifier."""
    from outrider.config import load_options
    from outrider.config.score import Score

    data = {"task": task_options(arguments)}
    if arguments.problems is not None:
        data["problems"] = arguments.problems
    options = load_options(Score, data, [], "score")
    from rich.console import Console

    from outrider.score.score_command import score_command

    return score_command(
        arguments.file, options.task, options.problems, columns(arguments), arguments.out, Console(stderr=True)
    )
