"""Computes the maximum number of tokens that a run generates, and the run's duration at measured rates."""

from __future__ import annotations

from typing import NamedTuple

from outrider.config import Recipe
from outrider.estimate.memory import most_rollouts


class Rates(NamedTuple):
    """The measured seconds per generated token in one process, by phase, and the number of measured tokens."""

    sample: float
    verify: float
    learn: float
    other: float
    tokens: int

    def of_a_token(self) -> dict[str, float]:
        return {"sample": self.sample, "verify": self.verify, "learn": self.learn, "other": self.other}


class Amounts(NamedTuple):
    """The maximum numbers of tokens that a run generates: one number for training (None if neither steps nor tokens are
    limited), and one number for evaluations.

    ``unbounded`` names the first stage without a maximum number of rollouts and all later stages. ``training`` does not
    include the tokens of these stages.
    """

    training: int | None
    evaluation: int
    evaluations: int
    unbounded: tuple[str, ...] = ()


def amounts(recipe: Recipe) -> Amounts:
    """Return the maximum number of tokens that a run generates.

    The number of evaluations that ``train.evaluate_every`` causes is computed as if all responses had the maximum
    length. With shorter responses, a limit on generated tokens allows more steps, and therefore more evaluations. If
    only ``train.seconds`` limits the run, the evaluations of ``train.evaluate_every`` are not counted.
    """
    train, evaluate = recipe.train, recipe.evaluate
    rollouts, unbounded = most_rollouts(recipe.explore, train.problems)
    step_tokens = max(rollouts * recipe.sample.max_tokens, 1)
    limits = [train.tokens, None if train.steps is None else train.steps * step_tokens]
    training = min((limit for limit in limits if limit is not None), default=None)
    steps = 0 if training is None else max(training // step_tokens, 1)
    by_step = steps // train.evaluate_every if train.evaluate_every else 0
    count = evaluate.before + evaluate.after + len(train.evaluate_at) + by_step
    responses = count * evaluate.problems * (evaluate.n + evaluate.greedy)
    stages = () if train.tokens == training else tuple(unbounded)
    return Amounts(training, responses * recipe.sample.max_tokens, count, stages)


def amount_lines(recipe: Recipe) -> list[str]:
    """Return sentences about the tokens that a run generates in training and evaluations."""
    most, evaluate = amounts(recipe), recipe.evaluate
    samples = f"{evaluate.n} samples" + (" and a greedy one" if evaluate.greedy else "")
    lines = []
    if most.training is not None:
        more = f", plus those of {' and '.join(most.unbounded)} (unbounded)" if most.unbounded else ""
        lines = [f"training: at most {most.training:,} generated tokens{more}"]
    if recipe.train.seconds is not None:
        lines += [f"training: at most {recipe.train.seconds:g} seconds, without evaluation and checkpoints"]
    if not most.evaluations:
        return [*lines, "evaluation: none"]
    each = f"{evaluate.problems:,} problems with {samples}"
    most_tokens = f"at most {most.evaluation:,} generated tokens, in addition to training"
    # with shorter responses, the same number of tokens allows more steps, and therefore more evaluations
    by_step = recipe.train.evaluate_every > 0 and recipe.train.steps is None
    more = ", more with train.evaluate_every if responses are shorter" if by_step else ""
    return [*lines, f"evaluation: {most.evaluations} of {each}, {most_tokens}{more}"]


def time_sentence(recipe: Recipe, rates: Rates, processes: int) -> str:
    """Return a sentence about the time that a run takes at these rates."""
    from outrider.screen.progress import clock_text  # imported here, since printing a recipe does not need rich

    most, limit = amounts(recipe), recipe.train.seconds
    parts = {name: seconds * (most.training or 0) / processes for name, seconds in rates.of_a_token().items()}
    training = sum(parts.values())
    told = ", ".join(f"{name} {clock_text(seconds)}" for name, seconds in parts.items())
    if limit is not None and (most.training is None or limit < training):
        training, told = limit, "train.seconds"
    evaluation = (rates.sample + rates.verify) * most.evaluation / processes
    bounded = " at most" if training == limit or not most.unbounded else ""
    return (
        f"time: about {clock_text(training + evaluation)}{bounded} (rough: from {rates.tokens:,} tokens of one "
        f"process, for {processes}): training {clock_text(training)} ({told}), evaluation {clock_text(evaluation)}"
    )
