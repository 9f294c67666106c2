"""``outrider show``: print rollouts of a run with their verdicts."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, folder
from outrider.errors import UserError


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("show", help="print rollouts of a run", description=__doc__, allow_abbrev=False)
    parser.add_argument("run_folder", type=folder, metavar="RUN", help="run folder, or the folder of `evaluate --out`")
    parser.add_argument("--step", type=int, metavar="N", help="step to show (the last one)")
    parser.add_argument(
        "--n", type=int, default=8, metavar="N", help="number of rollouts, evenly spaced within the step (8)"
    )
    parser.add_argument(
        "--name", choices=("train", "evaluate", "greedy"), default="train", help="split of the rollouts (train)"
    )
    parser.add_argument(
        "--problem", metavar="ID", help="only rollouts of this problem, by id or the id's first characters"
    )
    parser.add_argument(
        "--verdict",
        metavar="NAME",
        help="only rollouts with this verdict: correct, incorrect, …; none: rollouts without a verdict",
    )
    parser.add_argument("--stage", metavar="NAME", help="only rollouts of this stage")
    parser.add_argument("--longest", action="store_true", help="show the longest rollouts instead of a sample")
    parser.add_argument("--full", action="store_true", help="show whole texts without truncation")
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
