"""Estimates the tokens and the cost of a run on a paid service.

*Sampled* tokens are generated tokens. *Prefilled* tokens are prompts and prefixes of branches, which the model only
reads. Prefilled tokens count once per request, however many rollouts the request has. Responses, with their prompts,
are prefilled as well if the objective has an off-policy correction, or if the service has no built-in loss for the
objective. *Trained* tokens are the tokens of prompts and responses, counted in every pass with a gradient. All counts
are upper bounds, computed as if every response had ``sample.max_tokens`` tokens and every rollout were a separate
request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from outrider.config import Recipe
from outrider.estimate.memory import most_rollouts
from outrider.learn.options import Prices, Tinker
from outrider.learn.service_loss import named_loss

_PROMPTS = 32  # the mean length of the task's first 32 prompts is the assumed length of all prompts


class Tokens(NamedTuple):
    """The numbers of sampled, prefilled and trained tokens."""

    sampled: int
    prefilled: int
    trained: int


def step_tokens(recipe: Recipe, prompt: float) -> Tokens:
    """Return the maximum numbers of tokens in a step if prompts have a mean length of ``prompt`` tokens."""
    rollouts, _ = most_rollouts(recipe.explore, recipe.train.problems)
    first, _ = most_rollouts(recipe.explore[:1], recipe.train.problems)
    continued = (rollouts - first) * recipe.sample.max_tokens  # stages after the first may branch from any token
    row = prompt + recipe.sample.max_tokens
    # a correction needs one more forward pass, and a loss that the service lacks needs one before each update
    forward = (recipe.objective.correction is not None) + (named_loss(recipe.objective) is None) * recipe.learn.epochs
    return Tokens(
        sampled=rollouts * recipe.sample.max_tokens,
        prefilled=round(rollouts * prompt + continued + forward * rollouts * row),
        trained=round(recipe.learn.epochs * rollouts * row),
    )


def evaluation_tokens(recipe: Recipe, prompt: float) -> Tokens:
    """Return the maximum numbers of tokens in one evaluation."""
    options = recipe.evaluate
    each = options.n + options.greedy
    requests = options.problems * (1 + options.greedy)
    return Tokens(options.problems * each * recipe.sample.max_tokens, round(requests * prompt), 0)


def service_lines(recipe: Recipe, write: Callable[[str], int] | None) -> list[str]:
    """Return the estimate as sentences.

    Args:
        write: function that counts the tokens of a text; None if there is no tokenizer on this machine.
    """
    engine = recipe.engine.learner
    assert isinstance(engine, Tinker)
    prompts = [recipe.task.train(i).prompt for i in range(_PROMPTS)] if write else []
    prompt = sum(write(text) for text in prompts) / len(prompts) if write else 0.0
    step, evaluation = step_tokens(recipe, prompt), evaluation_tokens(recipe, prompt)
    _, unbounded = most_rollouts(recipe.explore, recipe.train.problems)
    more = f", and what {unbounded[0]} adds" if unbounded else ""
    said = f"{_said(step)} per step{more}; {_said(evaluation)} per evaluation"
    lines = [f"Tinker service {engine.address()}, at most: {said}"]
    if not write:
        lines.append("  without a tokenizer on this machine, prompt tokens are not counted")
    if engine.prices is None:
        return [*lines, "  set engine.learner.tinker.prices to estimate the cost"]
    a_step, an_evaluation = (_price(tokens, engine.prices) for tokens in (step, evaluation))
    lines.append(
        f"  cost at these prices, at most: {a_step:.4g} per step{more}, and {an_evaluation:.4g} per evaluation"
    )
    if recipe.train.steps is not None and not unbounded:
        times = evaluations(recipe)
        total = recipe.train.steps * a_step + times * an_evaluation
        lines.append(f"  at most {total:.4g} for {recipe.train.steps} steps and {times} evaluations")
    return lines


def evaluations(recipe: Recipe) -> int:
    """Return the number of evaluations before, during and after training, for a run with a limited number of steps."""
    train, steps = recipe.train, recipe.train.steps or 0
    between = (steps - 1) // train.evaluate_every if train.evaluate_every and steps else 0
    return recipe.evaluate.before + recipe.evaluate.after + len(train.evaluate_at) + between


def _price(tokens: Tokens, prices: Prices) -> float:
    return (
        tokens.sampled * prices.sample + tokens.prefilled * prices.prefill + tokens.trained * prices.train
    ) / 1_000_000


def _said(tokens: Tokens) -> str:
    return f"{tokens.sampled:,} tokens sampled, {tokens.prefilled:,} prefilled and {tokens.trained:,} trained"
