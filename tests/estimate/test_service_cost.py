"""Tokens and money of a run with a service, by hand."""

from __future__ import annotations

import pytest

from outrider.config import load_recipe
from outrider.estimate.service_cost import Tokens, evaluation_tokens, evaluations, service_lines, step_tokens

FITS = ["engine=tinker", "policy.lora={rank: 8}", "learn.clip_norm=null", "train.problems=2", "sample.max_tokens=10"]
PLAIN = [*FITS, "explore.0.n=4", "objective.correction=null"]
PRICED = "engine={sampler: tinker, learner: {tinker: {prices: {prefill: 1.0, sample: 10.0, train: 100.0}}}}"


@pytest.mark.parametrize(
    ("recipe", "words", "expected"),
    [
        # 8 rollouts of 10 tokens behind prompts of 5
        ("grpo", PLAIN, Tokens(80, 8 * 5, 8 * 15)),
        # one more pass over the rows before the first update
        ("grpo", [*PLAIN[:-1], "objective.correction=recompute"], Tokens(80, 40 + 120, 120)),
        # a loss that services do not know: one more pass before each of two updates
        ("grpo", [*PLAIN, "objective.surrogate=sapo", "learn.epochs=2"], Tokens(80, 40 + 2 * 120, 2 * 120)),
        # 8 more rollouts of the branches, which may continue 10 tokens each
        ("deep-grpo", [*PLAIN, "explore.1.cap=8"], Tokens(160, 16 * 5 + 8 * 10, 16 * 15)),
    ],
)
def test_tokens_of_a_step(recipe: str, words: list[str], expected: Tokens) -> None:
    assert step_tokens(load_recipe(recipe, words), prompt=5.0) == expected


def test_tokens_of_an_evaluation() -> None:
    recipe = load_recipe("grpo", [*PLAIN, "evaluate.problems=3", "evaluate.n=4"])
    assert evaluation_tokens(recipe, prompt=5.0) == Tokens(3 * 5 * 10, 3 * 2 * 5, 0)


def test_money() -> None:
    words = [*PLAIN, PRICED, "train.steps=10", "train.tokens=null", "train.evaluate_every=5", "evaluate.problems=1"]
    recipe = load_recipe("grpo", [*words, "evaluate.n=1", "evaluate.greedy=false"])
    assert evaluations(recipe) == 3  # before, after 5 steps, after
    *_, each, total = service_lines(recipe, lambda text: 5)
    # (40 * 1 + 80 * 10 + 120 * 100) and (5 * 1 + 10 * 10) millionths
    assert each == "  cost at these prices, at most: 0.01284 per step, and 0.000105 per evaluation"
    assert total == "  at most 0.1287 for 10 steps and 3 evaluations"


@pytest.mark.parametrize("recipe", ["dapo", "greso"])
def test_what_has_no_bound_has_no_total(recipe: str) -> None:
    lines = service_lines(load_recipe(recipe, [*FITS, PRICED, "train.steps=10", "train.tokens=null"]), None)
    assert "adds" in lines[0]
    assert not any("for 10 steps" in line for line in lines)
    assert any("prompt tokens are not counted" in line for line in lines)
