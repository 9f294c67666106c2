"""Supervised fine-tuning on the solutions that a task provides; used to make the shipped base models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from outrider.errors import UserError
from outrider.learn.local import LocalLearner
from outrider.learn.options import SftOptions
from outrider.model.attention import use_plans
from outrider.model.compiled_head import with_compiled_head
from outrider.model.load import Policy, context_length
from outrider.objective.policy_loss import ImitationLoss
from outrider.record import Problem
from outrider.record.row import WeightedRow, imitation_row
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask


def solution_row(policy: Policy, problem: Problem, prompts: bool = False) -> WeightedRow:
    """Return a row with the prompt as context, and with the solution and the end token as trained tokens. If
    ``prompts`` is true, the prompt's tokens are also trained, except the first.

    Raises:
        UserError: the problem has no solution.
    """
    encode = policy.tokenizer
    if "solution" not in problem.metadata:
        raise UserError(f"problem {problem.id!r} has no solution to train on (metadata 'solution')")
    context = encode(problem.prompt)["input_ids"]
    ids = [*context, *encode(problem.metadata["solution"], add_special_tokens=False)["input_ids"], encode.eos_token_id]
    begin = 1 if prompts else len(context)
    return imitation_row(np.array(ids[:begin], np.int32), np.array(ids[begin:], np.int32))


def demonstration_row(policy: Policy, task: TurnTask, problem: Problem) -> WeightedRow:
    """Return a row with the prompt as context and a demonstration as response. The response includes the environment's
    replies, which are not trained.
    """

    def encode(text: str) -> list[int]:
        return list(policy.tokenizer(text, add_special_tokens=False)["input_ids"])

    environment = task.make_environment()
    parts = [(False, encode(environment.begin(problem, 0)))]
    for turn in task.demonstration(problem) or []:
        parts += [(True, encode(turn)), (False, encode(environment.step(turn).observation))]
    environment.close()
    ids = [token for _, part in parts for token in part]
    flags = [sampled for sampled, part in parts for _ in part]
    return imitation_row(policy.encode(problem), np.array(ids, np.int32), np.array(flags, np.bool_))


def imitating(policy: Policy, options: SftOptions) -> LocalLearner:
    """Return a learner that trains ``policy`` in place to raise the likelihood of target tokens."""
    if policy.path.name != "plain":
        use_plans(policy.model)
    path = policy.path
    if options.learn.compile:
        path = with_compiled_head(path, policy.model.device, torch.float32)
    return LocalLearner(policy.model, options.learn, ImitationLoss(), path=path)


def fine_tune(
    policy: Policy,
    task: Task,
    options: SftOptions,
    report: Callable[[int, dict[str, float]], None],
    learner: LocalLearner | None = None,
    done: int = 0,
) -> None:
    """Train ``policy`` in place on the mean loss over target tokens; call ``report(step, metrics)`` after each step.

    A step's problems depend only on the step's number, so a ``learner`` that has trained ``done`` steps continues as if
    it had never been interrupted. If a problem with its solution is longer than the model's context, the problem is
    skipped and counted (``too_long``).

    Raises:
        UserError: all problems of a step are too long; a problem has no solution; ``prompts`` is set for a task with
            turns.
    """
    if options.prompts and isinstance(task, TurnTask):
        raise UserError(f"prompts=true is not supported for task {task.name!r}, whose demonstrations have turns")
    context = context_length(policy.model)
    learner = learner or imitating(policy, options)
    for step in range(done, options.steps):
        indices = range(step * options.problems, (step + 1) * options.problems)
        drawn = [_row(policy, task, task.train(index), options.prompts) for index in indices]
        rows = [row for row in drawn if row.length <= context]
        if not rows:
            raise UserError(
                f"step {step + 1}: all problems with their solutions are longer than the context of {context} tokens"
            )
        metrics = learner.update(rows, progress=step / options.steps).metrics
        report(step, metrics | {"too_long": float(len(drawn) - len(rows))})


def _row(policy: Policy, task: Task, problem: Problem, prompts: bool) -> WeightedRow:
    if isinstance(task, TurnTask):
        return demonstration_row(policy, task, problem)
    return solution_row(policy, problem, prompts)
