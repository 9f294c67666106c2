"""``outrider show``: print rollouts of a run with their verdicts."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, folder
from outrider.errors import UserError


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("show", help="print rollouts of a run", description=__doc__, allow_abbrev=False)
    parser.add_argument("run_folder", type=folder, metavar="RUN", help="run folder, or the folder of `evaluate --out`")
    parser.add_argument(
        "--step", type=int, metavar="N", help="training step whose rollouts are printed (default: the last step)"
    )
    parser.add_argument(
        "--n",
        type=int,
        default=8,
        metavar="N",
        help="number of rollouts to print, evenly spaced within the step (default: 8)",
    )
    parser.add_argument(
        "--name",
        choices=("train", "evaluate", "greedy"),
        default="train",
        help=(
            "kind of rollouts: from training (train), sampled evaluation (evaluate), greedy evaluation (greedy) "
            "(default: train)"
        ),
    )
    parser.add_argument(
        "--problem",
        metavar="ID",
        help="problem whose rollouts are printed, by its id or the id's first characters (default: all problems)",
    )
    parser.add_argument(
        "--verdict",
        metavar="NAME",
        help=(
            "verdict of the rollouts that are printed: correct, incorrect, …; none: rollouts without a verdict "
            "(default: all)"
        ),
    )
    parser.add_argument(
        "--stage", metavar="NAME", help="exploration stage whose rollouts are printed (default: all stages)"
    )
    parser.add_argument(
        "--longest", action="store_true", help="print the longest rollouts instead of evenly spaced ones"
    )
    parser.add_argument(
        "--full", action="store_true", help="print prompts and responses in full instead of truncating them"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the selected rollouts."""
    if arguments.n < 1:
        raise UserError(f"--n is {arguments.n}, but should be at least 1")
    from outrider.model.places import local_tokenizer
    from outrider.screen.show_command import show_command
    from outrider.screen.shown import Shown

    chosen = Shown(
        arguments.n, arguments.problem, arguments.verdict, arguments.stage, arguments.longest, arguments.full
    )
    return show_command(arguments.run_folder, arguments.step, chosen, arguments.name, local_tokenizer)
