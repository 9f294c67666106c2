"""Implements ``outrider sft``, which trains a new model or fine-tunes an existing model on a task's own solutions."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from transformers import Qwen2Tokenizer

import outrider
from outrider.config import Sft, load_recipe
from outrider.errors import UserError
from outrider.estimate.auto import choose, with_values
from outrider.learn.local import LocalLearner
from outrider.learn.sft import fine_tune, imitating
from outrider.model.load import Policy, context_length, load_policy, save_policy
from outrider.model.places import local_config
from outrider.model.tiny import CHARACTERS, character_tokenizer, subword_tokenizer, untrained
from outrider.processes.cores import usable_cores
from outrider.runs.checkpoint import Checkpoints
from outrider.sample.ready import ready
from outrider.screen.progress import Progress
from outrider.tasks.task import CharacterTask, SubwordTask
from outrider.tasks.turn_task import TurnTask
from outrider.train.loop import MOST_NONFINITE

_TEXTS = 4000  # number of problems on whose texts a tokenizer is trained
_SAVE_A_BASE_EVERY = 10  # steps between checkpoints of an existing model, whose steps take many seconds
SAVE_EVERY = 100  # steps between checkpoints of a new model; for a shipped base model, a save takes a fifth of a step


def sft_command(sft: Sft, out: Path) -> int:
    """Train a model, write it to ``out`` with its settings, and return 0.

    A new model trains on one thread, and an existing model on all cores. If training was interrupted, it is resumed
    from ``OUT.unfinished``. The result is the same as without the interruption.

    Raises:
        UserError: the folder exists, the task's problems have no solutions, losses or gradients are not finite in three
            consecutive steps, the interrupted training had other settings, or the base model does not exist.
    """
    if out.exists():
        raise UserError(f"{out} exists; choose another output folder")
    first = sft.task.train(0)
    shown = sft.task.demonstration(first) if isinstance(sft.task, TurnTask) else first.metadata.get("solution")
    if shown is None:
        raise UserError(f"task {sft.task.name!r} has no worked solutions to learn from (metadata 'solution')")
    # a new model uses one thread, so that sums, and therefore weights, do not depend on the number of cores
    torch.set_num_threads(1 if sft.base is None else len(usable_cores()))
    policy, asked, sft = _begun(sft), sft, _sized(sft)
    holds = f"its context, {context_length(policy.model)}"
    learner, losses = imitating(policy, sft), _Losses()
    save_every = SAVE_EVERY if sft.base is None else _SAVE_A_BASE_EVERY
    unfinished = Checkpoints(out.with_name(f"{out.name}.unfinished"), keep=2)
    done = _gone_on(unfinished, asked, learner, losses)
    passes = [learner.passes]
    with Progress(sft.steps, "steps") as progress:
        progress.phase("learn")
        progress.advance(done)

        def report(step: int, metrics: dict[str, float]) -> None:
            losses.add(step, metrics)
            if (step + 1) % save_every == 0 and step + 1 < sft.steps:
                state = {"settings": asked.model_dump(mode="json"), "losses": losses.state_dict()}
                unfinished.save(step + 1, state, learner.save)
            progress.advance(1)
            if learner.passes != passes[-1]:
                passes.append(learner.passes)
                progress.say(f"out of memory in the backward pass: continuing with {learner.passes}")
            if 0 < losses.too_long == metrics["too_long"]:
                progress.say(f"excluded: a problem with more tokens than {holds}; counted")
            if "entropy" in metrics:
                progress.stats({"entropy": metrics["entropy"]})

        fine_tune(policy, sft.task, sft, report, learner, done)
    about = {
        "command": sys.argv[1:],
        "settings": sft.model_dump(mode="json"),
        "versions": {"outrider": outrider.__version__, "torch": str(torch.__version__)},
        "loss": dict(losses.finite[:: max(1, len(losses.finite) // 20)]),
        "skipped_nonfinite": losses.skipped,
        "too_long": losses.too_long,
    }
    save_policy(policy, out, about)
    shutil.rmtree(unfinished.folder, ignore_errors=True)
    last = [loss for _, loss in losses.finite[-100:]]
    mean = f"loss {sum(last) / len(last):.4f} over the last {len(last)}" if last else "no loss was finite"
    skipped = f"; {losses.skipped} updates skipped because of a non-finite loss or gradient" if losses.skipped else ""
    share = losses.too_long / (sft.steps * sft.problems)
    left = f"; {share:.1%} of the problems excluded, longer than {holds}" if share else ""
    Console().print(f"{sft.steps} steps; {mean}{skipped}{left}; model in {out}")
    return 0


def _gone_on(unfinished: Checkpoints, sft: Sft, learner: LocalLearner, losses: _Losses) -> int:
    """Restore the learner and the losses of an interrupted training run. Return the number of finished steps."""
    if unfinished.last is None:
        return 0
    checkpoint, troubles = unfinished.load_last()
    other = [
        key for key, value in sft.model_dump(mode="json").items() if checkpoint.state["settings"].get(key) != value
    ]
    if other:
        raise UserError(
            f"{unfinished.folder} has an unfinished training with other settings ({', '.join(other)}); remove it, or "
            "choose another output folder"
        )
    learner.load(checkpoint.folder)
    losses.load_state_dict(checkpoint.state["losses"])
    for said in (*troubles, f"going on after step {checkpoint.step}, from {unfinished.folder}"):
        Console(stderr=True).print(said)
    return checkpoint.step


def _begun(sft: Sft) -> Policy:
    if sft.base is not None:
        policy, sentence = ready(load_policy(sft.base), sampled=False)
        Console(stderr=True).print(sentence)
        return policy
    return untrained(sft.seed, _tokenizer(sft), sft.model)


def _sized(sft: Sft) -> Sft:
    """If an existing model is fine-tuned, choose batch sizes that fit into memory. A new model is small and keeps the
    defaults.

    Memory is estimated for policy gradient steps without a KL penalty. Steps of supervised fine-tuning need the same
    memory.
    """
    if sft.base is None:
        return sft
    learn = {key: getattr(sft.learn, key) for key in ("micro_tokens", "gradient_checkpointing")}
    values = {f"learn.{key}": value for key, value in learn.items()}
    recipe = load_recipe("dr-grpo", {"model": sft.base, "train.ranks": 1, "sample.rows": 1, **values})
    chosen = choose(recipe, local_config(sft.base))
    if chosen.sentence is not None:
        Console(stderr=True).print(chosen.sentence)
    sized = with_values(recipe, chosen.values).learn
    return sft.model_copy(update={"learn": sft.learn.model_copy(update={key: getattr(sized, key) for key in learn})})


def _tokenizer(sft: Sft) -> Qwen2Tokenizer:
    if not (isinstance(sft.task, SubwordTask) and sft.task.subwords):
        return character_tokenizer(sft.task.characters if isinstance(sft.task, CharacterTask) else CHARACTERS)
    problems = [sft.task.train(index) for index in range(_TEXTS)]
    return subword_tokenizer([p.prompt + p.metadata["solution"] for p in problems], sft.model.vocabulary)


class _Losses:
    """The finite losses by step, the number of updates skipped because of non-finite values, and the number of problems
    excluded because they are too long."""

    def __init__(self) -> None:
        self.finite: list[tuple[str, float]] = []
        self.skipped = self.too_long = 0
        self._in_a_row = 0

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record a step. Raises UserError at the third consecutive skipped update."""
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

    def state_dict(self) -> dict[str, Any]:
        counts = {"skipped": self.skipped, "too_long": self.too_long, "in_a_row": self._in_a_row}
        return {"finite": self.finite, **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.finite = [(step, loss) for step, loss in state["finite"]]
        self.skipped, self.too_long, self._in_a_row = (state[key] for key in ("skipped", "too_long", "in_a_row"))
