"""``outrider sft``: fine-tune a model (by default, a new small one) on a task's own solutions."""

from __future__ import annotations

import argparse

from outrider.cli.arguments import Commands, add_overrides, folder, interruptible, print_yaml
from outrider.interrupts import interrupts_held


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sft", help="supervised fine-tuning on a task's own solutions", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "task", metavar="TASK", help="task whose solutions are trained on, by name (such as countdown) or as JSON"
    )
    add_overrides(parser, "steps=2000 learn.lr=2e-3 seed=1")
    parser.add_argument(
        "--out",
        type=folder,
        metavar="DIR",
        help="folder in which the trained model is saved (default: runs/sft-<task>-<seed>)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fine-tune the model, or print the resolved options."""
    from outrider.config import load_sft, read_yaml
    from outrider.config.sft import folder_of_sft

    sft = load_sft(read_yaml(arguments.task, arguments.task), arguments.overrides)
    if arguments.dry_run:
        return print_yaml(sft.model_dump(mode="json"))
    out = arguments.out or folder_of_sft(sft)

    def work() -> int:
        with interrupts_held():
            from outrider.commands.sft_command import sft_command  # a slow import, which delays Ctrl-C

        return sft_command(sft, out=out)

    return interruptible(work)
