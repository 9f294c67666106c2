"""The plan of the map: recipes, seeds and held-out problems of the benches of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

from outrider.tasks.heldout import Order

SETTINGS = ("countdown", "frontier", "sparse", "prose")
POOLS = {"countdown": 2048, "frontier": 2048, "sparse": 512, "prose": 512}
"""Training problems of a setting: a finite set, since some recipes need problems that come back."""
ASKED = ("grpo", "dars-hw", "dars-hw-breadth", "deep-grpo", "xrpo")
"""GRPO and the recipes whose papers' claims are checked: compared in every setting."""
DESIGNS = ("invest", "choose", "choose-pass2", "choose-pass4", "choose-prefix", "choose-slope3", "choose-annealed")
"""Designs of ours."""
OTHERS = (
    *("dapo", "dars-et", "dars-et-breadth", "xrpo-no-icl", "deep-lambda-0.1", "treerl", "tree-grpo"),
    *("cures", "greso", "passk-training", "ds-grpo", "f-grpo", "vip", "pilot-commit", "knapsack", "prefixrl"),
    *("rft-entropy", "success-replay", "prefix-replay"),
)
NINE = (*ASKED, "choose-slope3", "choose-annealed", "prefix-replay", "passk-training")
NOT_SCREENED = {
    "frontier": {"choose-slope3", "choose-annealed", "success-replay", "prefix-replay"},  # they came after the screen
    "sparse": {"choose", "choose-pass4", "choose-prefix", "choose-annealed"},
}
COMPARISON = "compared"
"""The folder of a setting's comparison."""
BEST = 2
"""So many of our designs and of the other recipes are compared."""


class Bench(NamedTuple):
    """A comparison or a confirmation."""

    folder: str
    recipes: tuple[str, ...]
    skip: int
    """The place of the first problem of the final test set."""
    problems: int = 300
    """The size of the final test set."""
    first_seed: int = 0
    seeds: int = 5
    order: Order = "shuffled"
    hyperparameters: tuple[float, int] | None = None
    """Learning rate and minibatches of all recipes; None: each recipe's own, by the screen."""


def candidates(setting: str) -> list[str]:
    """The recipes that a setting screens."""
    if setting not in NOT_SCREENED:
        return [*NINE]
    return [*ASKED, *(name for name in (*DESIGNS, *OTHERS) if name not in NOT_SCREENED[setting])]


def chosen(tuned: Mapping[str, Any]) -> list[str]:
    """The recipes that a setting compares, by its screen."""

    def best(names: Sequence[str]) -> list[str]:
        return sorted((name for name in names if name in tuned), key=lambda name: usual(tuned[name]), reverse=True)

    return [*ASKED, *best(DESIGNS)[:BEST], *best(OTHERS)[:BEST]]


def usual(choice: Mapping[str, Any]) -> float:
    """The mean of the criterion over all runs of a recipe's screen; minus infinity where one failed."""
    return fmean(each["scores"]["criterion"]["value"] if each["scores"] else -inf for each in choice["tried"])


def comparison(setting: str, tuned: Mapping[str, Any]) -> Bench:
    """The comparison of a setting. That of ``countdown`` is new: the drawn order had two populations of problems."""
    names = (*chosen(tuned),)
    if setting == "countdown":
        return Bench(COMPARISON, names, 300, first_seed=15)
    return Bench(COMPARISON, names, 600, order="drawn")


def confirmations(setting: str) -> list[Bench]:
    """The confirmations of a setting; the last one that is done counts."""
    return {
        "countdown": [_confirmation("prefix-replay", skip=600, problems=252, first_seed=10)],
        "frontier": [
            _confirmation("choose-slope3", skip=2400, first_seed=25, order="drawn"),
            _confirmation("choose-pass4", skip=600, first_seed=35),
        ],
        "sparse": [_confirmation("prefix-replay", skip=600, first_seed=25)],
        "prose": [_confirmation("dars-hw", skip=500, first_seed=10)],
    }[setting]


def _confirmation(recipe: str, skip: int, first_seed: int, problems: int = 300, order: Order = "shuffled") -> Bench:
    return Bench(f"confirm-{recipe}", ("grpo", recipe), skip, problems, first_seed, 5, order, (1e-4, 4))
