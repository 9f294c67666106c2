"""``outrider evaluate``: evaluate a model on a task's held-out problems."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from outrider.cli.arguments import Commands, add_overrides, finish_dry_run, folder, print_yaml
from outrider.cli.task_arguments import add_task, task_options
from outrider.interrupts import interrupts_held

if TYPE_CHECKING:
    from outrider.config import Evaluate


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("evaluate", help="evaluate a model on a task", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="model to evaluate: base:<name> (shipped), a folder, a GGUF file, or a Hugging Face Hub name",
    )
    add_task(parser)
    parser.add_argument(
        "--protocol",
        metavar="NAME",
        help="settings of a paper's evaluation: dr-grpo, dars, xrpo or still (default: Outrider's own)",
    )
    parser.add_argument(
        "--n", type=int, metavar="N", help="number of responses to sample per problem (default: evaluate.n)"
    )
    parser.add_argument(
        "--problems",
        type=int,
        metavar="P",
        help="number of held-out problems to evaluate on (default: evaluate.problems; for a suite, all)",
    )
    add_overrides(parser, "sample.max_tokens=96 evaluate.greedy=false")
    parser.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder in which rollouts and the table of results are saved (default: nothing is saved)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate the model, or print the resolved configuration."""
    from outrider.api.evaluation import all_of_a_suite
    from outrider.config import Evaluate, load_options
    from outrider.config.protocol import protocol

    data = {"model": arguments.model, "task": task_options(arguments), **protocol(arguments.protocol)}
    short = {"n": arguments.n, "problems": arguments.problems}
    given = {key: value for key, value in short.items() if value is not None}
    data["evaluate"] = {**data.get("evaluate", {}), **given}
    evaluation = all_of_a_suite(load_options(Evaluate, data, arguments.overrides, "evaluate"))
    if arguments.dry_run:
        print_yaml(evaluation.model_dump(mode="json"))
        return _check(evaluation)
    from outrider.processes.warm import warm_ahead

    warm_ahead("outrider.commands.evaluate_command", ranks=0)
    with interrupts_held():
        from outrider.commands.evaluate_command import evaluate_command

    return evaluate_command(evaluation, out=arguments.out)


def _check(evaluation: Evaluate) -> int:
    from outrider.preflight.check import Wanted
    from outrider.preflight.local import checked_here

    wanted = Wanted(None, evaluation.evaluate, evaluation.sample.max_tokens)
    return finish_dry_run(checked_here(evaluation.task, wanted, evaluation.model, evaluation.policy))
