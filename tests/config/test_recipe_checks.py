"""Recipes whose parts cannot work together are refused when they are read, in one sentence."""

import pytest

from outrider.config import load_recipe
from outrider.errors import UserError


@pytest.mark.parametrize(
    ("recipe", "override", "expected"),
    [
        ("dars-hw", "explore.1.n_max=4", "explore.1: rebalance.n_max is 4, below the 8 rollouts of the first"),
        ("dars-hw", "explore=[rebalance]", "explore.0: rebalance adds to a first pass: put uniform before it"),
        ("xrpo-no-icl", "explore.1.total=128", "explore.1: prioritise.total is 128 rollouts per step, but the stages"),
        ("xrpo-no-icl", "train.problems=64", "explore.1: prioritise.total is 256 rollouts per step, but the stages"),
        ("xrpo-no-icl", "explore=[prioritise]", "explore.0: prioritise ranks problems by their rollouts so far"),
        ("xrpo-no-icl", "explore.0.n=1", "explore.1: prioritise ranks problems by their rollouts so far: put uniform"),
        ("dapo", "explore=[refill]", "explore.0: refill replaces groups that are not mixed"),
        (
            "deep-grpo",
            "explore=[branch]",
            "explore.0: branch continues existing rollouts and cannot be the first stage",
        ),
        (
            "remax",
            "sample.max_tokens=50",
            "explore.1: assumes responses of at most 96 tokens, but sample.max_tokens is",
        ),
        (
            "grpo",
            "credit.main=[{overlong: {max_tokens: 80, buffer: 9}}, group_mean]",
            "credit.main.0 assumes responses of at most 80 tokens, but sample.max_tokens is 96",
        ),
        ("grpo", "credit.main=[greedy]", "credit.main compares with the rollouts of a stage 'greedy', which explore"),
        (
            "tree-grpo",
            "explore.1.segment=turns",
            "explore.1: cuts rollouts at their turns, but task 'countdown' has single-turn rollouts",
        ),
        (
            "grpo",
            "explore=[{uniform: {n: 4}}, {entropy_branch: {total: 4, segment: chunk}}]",
            "explore.1: entropy_branch.total is 4 rollouts of a problem, but the stages before it draw 4",
        ),
        (
            "xrpo-no-icl",
            "explore=[cures, {prioritise: {total: 256}}]",
            "explore.1: prioritise.total is 256 rollouts per step, but the stages before it sample 256 for 32",
        ),
        ("dars-hw", "explore=[cures, {rebalance: {n_max: 31}}]", "rebalance.n_max is 31, below the 32 rollouts"),
        (
            "deep-grpo",
            "explore.1.segment={chunk: {tokens: 96}}",
            "explore.1: cuts responses every 96 tokens, but responses have",
        ),
        (
            "grpo",
            "explore=[cures, {vip: {n: 9}}]",
            "explore.1: samples only for problems without rollouts, but each already has at least 2",
        ),
        (
            "knapsack",
            "explore=[uniform, knapsack]",
            "explore.1: samples only for problems without rollouts, but each already has at least 8",
        ),
        ("grpo", "explore=[entropy_branch]", "explore.0: entropy_branch continues existing rollouts and cannot be"),
        ("xrpo", "explore.1.seed.embed=tfid", "'tfid' is not an embedder (did you mean 'tfidf'?)"),
        ("deep-grpo", "explore.1.stream=brunch", "explore.1: samples for the loss stream 'brunch', which has no chain"),
    ],
)
def test_stages_that_cannot_work_where_they_stand(recipe: str, override: str, expected: str) -> None:
    with pytest.raises(UserError) as refused:
        load_recipe(recipe, [override])
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
