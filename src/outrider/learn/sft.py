"""Supervised fine-tuning on a task's own solutions: how the embedded base model is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outrider.learn.local import LocalLearner
from outrider.learn.options import SftOptions
from outrider.model.attention import use_plans
from outrider.model.load import Policy
from outrider.objective.policy_loss import ImitationLoss
from outrider.record import Problem
from outrider.record.row import TrainingRow, imitation_row
from outrider.tasks.task import Task


def solution_row(policy: Policy, problem: Problem) -> TrainingRow:
    """Prompt as context, solution and end token as own tokens."""
    encode = policy.tokenizer
    context = np.array(encode(problem.prompt)["input_ids"], np.int32)
    solution = encode(problem.metadata["solution"], add_special_tokens=False)["input_ids"]
    return imitation_row(context, np.array([*solution, encode.eos_token_id], np.int32))


def fine_tune(policy: Policy, task: Task, options: SftOptions, report: Callable[[int, dict[str, float]], None]) -> None:
    """Train ``policy`` in place; ``report(step, metrics)`` after every step. Loss: mean over solution tokens."""
    use_plans(policy.model)
    learner = LocalLearner(policy.model, options.learn, ImitationLoss())
    for step in range(options.steps):
        indices = range(step * options.problems, (step + 1) * options.problems)
        rows = [solution_row(policy, task.train(index)) for index in indices]
        report(step, learner.update(rows, progress=step / options.steps).metrics)
