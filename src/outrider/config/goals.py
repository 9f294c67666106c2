"""Lists shipped recipes by goal, such as keeping pass@k while pass@1 rises. The recipe with the best evidence comes
first."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal, NamedTuple

from outrider.config.yaml_data import read_yaml

Evidence = Literal["confirmed", "measured", "paper"]


class GoalRecipe(NamedTuple):
    """A recipe for a goal.

    Attributes:
        name: name of the recipe.
        evidence: ``confirmed`` if Outrider's benchmarks show a significant gain, also on new seeds and problems;
            ``measured`` if a benchmark shows a significant gain; ``paper`` if only the paper reports a gain.
        note: what Outrider's benchmarks found for the recipe.
    """

    name: str
    evidence: Evidence
    note: str


class Goal(NamedTuple):
    """A goal that a user may have, and the recipes for this goal, best evidence first."""

    about: str
    recipes: list[GoalRecipe]


def goals() -> dict[str, Goal]:
    """Return the goals by name.

    >>> goals()["keep-coverage"].recipes[0].name
    'prefix-replay'
    """
    return {
        name: Goal(goal["about"], [GoalRecipe(recipe, **of) for recipe, of in goal["recipes"].items()])
        for name, goal in _data()["goals"].items()
    }


def first_recipes() -> list[str]:
    """Return the names of ten recipes that are recommended to new users."""
    return list(_data()["begin"])


def _data() -> dict[str, Any]:
    text = files("outrider.config").joinpath("goals.yaml").read_text("utf-8")
    data: dict[str, Any] = read_yaml(text, "goals.yaml")
    return data
