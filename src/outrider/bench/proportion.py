"""Keeps evaluation in proportion to the budget: short runs get fewer evaluation points, problems and samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from outrider.bench.spec import Bench, settle
from outrider.config import Recipe
from outrider.estimate.time_estimate import amounts

MOST = 4.0
"""Maximum ratio of a run's evaluation tokens (with ``sample.max_tokens`` per response) to its training tokens.

At this ratio, a run in the default setting evaluates for about as long as it trains. In that setting, the mean response
length is 46 % of ``max_tokens``, and sampling takes 55 % of a training step (measured on two cores; docs/log.md,
2026-11-28).
"""
LEAST = {"points": 1, "evaluate.problems": 50, "evaluate.n": 8}


class Proportioned(NamedTuple):
    """A bench and its recipes with reduced evaluation, and a sentence that describes the reductions ("" if there are
    none)."""

    bench: Bench
    recipes: dict[str, Recipe]
    sentence: str


def in_proportion(bench: Bench, recipes: Mapping[str, Recipe], given: Collection[str]) -> Proportioned:
    """Lower ``points`` (evaluations per run), ``evaluate.problems`` and ``evaluate.n`` until a run has at most
    :data:`MOST` evaluation tokens per training token.

    The reductions take turns: first one evaluation point is removed, then the number of problems is halved, then the
    number of samples. The result depends on a run's budget and on the base recipe, but not on the number of seeds or
    recipes, so that seeds and recipes can be added to a bench later.

    Args:
        bench: requested options, completed with the defaults.
        recipes: recipes before :func:`~outrider.bench.spec.settle`.
        given: those of ``points``, ``evaluate.problems`` and ``evaluate.n`` that the user has set; their values are
            kept.

    Degenerate cases: a budget in seconds has no known number of tokens, so nothing is lowered. No value is lowered
    below its minimum in :data:`LEAST`, so a very short run may have more than :data:`MOST` evaluation tokens per
    training token.
    """
    evaluate = recipes[bench.base].evaluate
    asked = {"points": bench.points, "evaluate.problems": evaluate.problems, "evaluate.n": evaluate.n}
    values, most = dict(asked), evaluation_share(bench, recipes[bench.base])
    while most is not None and most * _size(values, evaluate.greedy) / _size(asked, evaluate.greedy) > MOST:
        can = [key for key, least in LEAST.items() if key not in given and values[key] > least]
        if not can:
            break
        key = min(can, key=lambda key: _notches(key, asked[key], values[key]))
        lower = values[key] - 1 if key == "points" else values[key] // 2
        values[key] = max(lower, LEAST[key])
    lowered = {key: value for key, value in values.items() if value != asked[key]}
    made = {name: _with(recipe, values) for name, recipe in recipes.items()} if lowered else dict(recipes)
    return Proportioned(bench.model_copy(update={"points": values["points"]}), made, _sentence(asked, lowered))


def evaluation_share(bench: Bench, recipe: Recipe) -> float | None:
    """Return the ratio of a run's maximum evaluation tokens to its maximum training tokens; None if the number of
    training tokens is unknown."""
    found = amounts(settle(recipe, bench))
    return None if found.training is None else found.evaluation / found.training


def _size(values: Mapping[str, int], greedy: bool) -> int:
    """Return the number of responses in all evaluations of a run."""
    return values["points"] * values["evaluate.problems"] * (values["evaluate.n"] + greedy)


def _with(recipe: Recipe, values: Mapping[str, int]) -> Recipe:
    sizes = {"problems": values["evaluate.problems"], "n": values["evaluate.n"]}
    return recipe.model_copy(update={"evaluate": recipe.evaluate.model_copy(update=sizes)})


def _notches(key: str, asked: int, value: int) -> int:
    """Return how many times the value of a key has been lowered."""
    return asked - value if key == "points" else round(asked / value).bit_length() - 1


def _sentence(asked: Mapping[str, int], lowered: Mapping[str, int]) -> str:
    if not lowered:
        return ""
    words = {"points": "--points (points=)", "evaluate.problems": "evaluate.problems", "evaluate.n": "evaluate.n"}
    changes = ", ".join(f"{words[key]} {asked[key]:,} -> {value:,}" for key, value in lowered.items())
    return (
        f"evaluation reduced in proportion to the budget: {changes}; values that you set are kept. Compare only "
        "benches with equal evaluation settings"
    )
