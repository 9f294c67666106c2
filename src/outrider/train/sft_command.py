"""``outrider sft``: make a base model from a task's own solutions and say how good it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from rich.console import Console
from transformers import Qwen2Tokenizer

import outrider
from outrider.config import Sft
from outrider.errors import UserError
from outrider.learn.sft import fine_tune
from outrider.model.load import save_policy
from outrider.model.tiny import CHARACTERS, character_tokenizer, subword_tokenizer, untrained
from outrider.screen.progress import Progress
from outrider.tasks.turn_task import TurnTask
from outrider.train.loop import MOST_NONFINITE

_TEXTS = 4000  # problems whose texts a tokenizer is learnt from


def sft_command(sft: Sft, out: Path) -> int:
    """Train the embedded model from scratch on one thread, write it to ``out`` with its settings, return 0.

    Raises:
        UserError: the folder exists, the task's problems carry no solution, or three steps in a row are not finite.
    """
    if out.exists():
        raise UserError(f"{out} exists; choose another output folder")
    first = sft.task.train(0)
    shown = sft.task.demonstration(first) if isinstance(sft.task, TurnTask) else first.metadata.get("solution")
    if shown is None:
        raise UserError(f"task {sft.task.name!r} has no worked solutions to learn from (metadata 'solution')")
    # the same sums, and so the same weights, on machines with any number of cores
    torch.set_num_threads(1)
    policy = untrained(sft.seed, _tokenizer(sft), sft.model)
    losses = _Losses()
    with Progress(sft.steps, "steps") as progress:
        progress.phase("learn")

        def report(step: int, metrics: dict[str, float]) -> None:
            losses.add(step, metrics)
            progress.advance(1)
            if 0 < losses.too_long == metrics["too_long"]:
                progress.say(f"left out: a problem with more tokens than model.context={sft.model.context}; counted")
            if "entropy" in metrics:
                progress.stats({"entropy": metrics["entropy"]})

        fine_tune(policy, sft.task, sft, report)
    about = {
        "command": sys.argv[1:],
        "settings": sft.model_dump(mode="json"),
        "versions": {"outrider": outrider.__version__, "torch": str(torch.__version__)},
        "loss": dict(losses.finite[:: max(1, len(losses.finite) // 20)]),
        "skipped_nonfinite": losses.skipped,
        "too_long": losses.too_long,
    }
    save_policy(policy, out, about)
    last = [loss for _, loss in losses.finite[-100:]]
    mean = f"loss {sum(last) / len(last):.4f} over the last {len(last)}" if last else "no loss was finite"
    skipped = f"; {losses.skipped} updates skipped, their loss or gradient was not finite" if losses.skipped else ""
    share = losses.too_long / (sft.steps * sft.problems)
    left = f"; {share:.1%} of the problems left out, too long for model.context={sft.model.context}" if share else ""
    Console().print(f"{sft.steps} steps; {mean}{skipped}{left}; model in {out}")
    return 0


def _tokenizer(sft: Sft) -> Qwen2Tokenizer:
    if not sft.task.subwords:
        return character_tokenizer(sft.task.characters or CHARACTERS)
    problems = [sft.task.train(index) for index in range(_TEXTS)]
    return subword_tokenizer([p.prompt + p.metadata["solution"] for p in problems], sft.model.vocabulary)


class _Losses:
    """The loss by step where it was finite, the updates skipped because it was not, the problems left out."""

    def __init__(self) -> None:
        self.finite: list[tuple[str, float]] = []
        self.skipped = self.too_long = 0
        self._in_a_row = 0

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a step. Raises UserError at the third skipped update in a row."""
        skipped = int(metrics.get("skipped_nonfinite", 0))
        self.skipped += skipped
        self.too_long += int(metrics["too_long"])
        self._in_a_row = self._in_a_row + 1 if skipped else 0
        if self._in_a_row == MOST_NONFINITE:
            raise UserError(
                f"step {step + 1}: loss or gradient was not finite in {MOST_NONFINITE} steps in a row; no model is "
                "written (lower learn.lr)"
            )
        if "loss" in metrics:
            self.finite.append((str(step), metrics["loss"]))
