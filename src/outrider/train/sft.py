"""``outrider sft``: make a base model from a task's own solutions and say how good it is."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from rich.console import Console

import outrider
from outrider.config import Sft
from outrider.errors import UserError
from outrider.learn.sft import fine_tune
from outrider.model.load import save_policy
from outrider.model.tiny import tiny_policy
from outrider.train.progress import Progress


def sft_command(sft: Sft, out: Path) -> int:
    """Train the embedded model from scratch on one thread, write it to ``out`` with its settings, return 0.

    Raises:
        UserError: the folder exists, or the task's problems carry no solution.
    """
    if out.exists():
        raise UserError(f"{out} exists; choose another output folder")
    if "solution" not in sft.task.train(0).metadata:
        raise UserError(f"task {sft.task.name!r} has no worked solutions to learn from (metadata 'solution')")
    torch.set_num_threads(1)
    policy = tiny_policy(sft.seed)
    losses: list[float] = []
    with Progress(sft.steps, "steps") as progress:
        progress.phase("learn")

        def report(step: int, metrics: dict[str, float]) -> None:
            losses.append(metrics["loss"])
            progress.advance(1)
            progress.stats({"entropy": metrics["entropy"]})

        fine_tune(policy, sft.task, sft, report)
    about = {
        "command": sys.argv[1:],
        "settings": sft.model_dump(mode="json"),
        "versions": {"outrider": outrider.__version__, "torch": str(torch.__version__)},
        "loss": {str(step): losses[step] for step in range(0, len(losses), max(1, len(losses) // 20))},
    }
    save_policy(policy, out, about)
    last = losses[-100:]
    Console().print(f"{sft.steps} steps; loss {sum(last) / len(last):.4f} over the last {len(last)}; model in {out}")
    return 0
