"""What a run asks of a service that is paid by the token, before anything is spent.

Three counts. *Sampled*: generated tokens. *Prefilled*: tokens that are read and not trained on, once for each request,
whatever the number of its rollouts: prompts, and for corrections and for objectives that a service does not know by
name the whole rows. *Trained*: rows with their prompts, in every pass with a gradient. All are upper bounds, for
responses of ``sample.max_tokens``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from outrider.config import Recipe
from outrider.learn.options import Tinker
from outrider.learn.service_loss import named_loss
from outrider.train.memory import most_rollouts

_PROMPTS = 32  # of a task, whose mean stands for all


class Tokens(NamedTuple):
    """Sampled, prefilled and trained."""

    sampled: int
    prefilled: int
    trained: int


def step_tokens(recipe: Recipe, prompt: float) -> Tokens:
    """At most, of a step with prompts of this mean length."""
    rollouts, _ = most_rollouts(recipe.explore, recipe.train.problems)
    row = prompt + recipe.sample.max_tokens
    # one more pass before the first update, and before each update of a loss that the service does not know
    forward = (recipe.objective.correction is not None) + (named_loss(recipe.objective) is None) * recipe.learn.epochs
    return Tokens(
        sampled=rollouts * recipe.sample.max_tokens,
        prefilled=round(rollouts * prompt + forward * rollouts * row),
        trained=round(recipe.learn.epochs * rollouts * row),
    )


def evaluation_tokens(recipe: Recipe, prompt: float) -> Tokens:
    """At most, of one evaluation."""
    options = recipe.evaluate
    each = options.n + options.greedy
    requests = options.problems * (1 + options.greedy)
    return Tokens(options.problems * each * recipe.sample.max_tokens, round(requests * prompt), 0)


def service_lines(recipe: Recipe, write: Callable[[str], int] | None) -> list[str]:
    """The estimate in sentences.

    Args:
        write: the number of tokens of a text; None where there is no tokenizer on this machine.
    """
    engine = recipe.engine.learner
    assert isinstance(engine, Tinker)
    prompts = [recipe.task.train(i).prompt for i in range(_PROMPTS)] if write else []
    prompt = sum(write(text) for text in prompts) / len(prompts) if write else 0.0
    step, evaluation = step_tokens(recipe, prompt), evaluation_tokens(recipe, prompt)
    lines = [
        f"of the Tinker service {engine.address()}, at most: {_said(step)} a step; {_said(evaluation)} an evaluation",
    ]
    if not write:
        lines.append("  without a tokenizer on this machine, prompts are counted as nothing")
    if engine.prices is None:
        return [*lines, "  with engine.learner.tinker.prices this would be a sum of money"]
    a_step, an_evaluation = (_price(tokens, engine) for tokens in (step, evaluation))
    times = recipe.evaluate.before + recipe.evaluate.after + len(recipe.train.evaluate_at)
    if recipe.train.steps is not None:
        times += recipe.train.steps // recipe.train.evaluate_every if recipe.train.evaluate_every else 0
        all_steps = recipe.train.steps * a_step
    else:
        # rows are as long as what was sampled for them, so a budget of tokens is a share of the largest step
        all_steps = a_step * (recipe.train.tokens or 0) / step.sampled if step.sampled else 0.0
    if recipe.train.steps is None and recipe.train.tokens is None:
        return [*lines, f"  at these prices {a_step:.4g} a step and {an_evaluation:.4g} an evaluation"]
    total = all_steps + times * an_evaluation
    return [
        *lines,
        f"  at these prices {a_step:.4g} a step and {an_evaluation:.4g} an evaluation: {total:.4g} for the run, with "
        f"{times} evaluations",
    ]


def _price(tokens: Tokens, engine: Tinker) -> float:
    prices = engine.prices
    assert prices is not None
    return (
        tokens.sampled * prices.sample + tokens.prefilled * prices.prefill + tokens.trained * prices.train
    ) / 1_000_000


def _said(tokens: Tokens) -> str:
    return f"{tokens.sampled:,} tokens sampled, {tokens.prefilled:,} prefilled and {tokens.trained:,} trained"
