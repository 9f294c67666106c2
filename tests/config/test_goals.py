"""Recipes by goal: the names exist, the order is that of evidence, and the evidence is in committed benches."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from outrider.cli import main
from outrider.config import list_recipes, load_recipe
from outrider.config.goals import GoalRecipe, first_recipes, goals
from outrider.credit.boundary_gate import BoundaryGate
from outrider.credit.uniform_correct import UniformCorrect

RESULTS = Path(__file__).parents[2] / "benchmarks/results"
ORDER = ["confirmed", "measured", "paper"]
ALL = [(goal, recipe) for goal, of in goals().items() for recipe in of.recipes]


def test_every_recipe_is_shipped_and_stands_once_in_a_goal() -> None:
    shipped = {info.name for info in list_recipes()}
    for of in goals().values():
        names = [recipe.name for recipe in of.recipes]
        assert set(names) <= shipped
        assert len(set(names)) == len(names) >= 3
    assert set(first_recipes()) <= shipped
    assert len(set(first_recipes())) == 10


def test_better_evidence_comes_first() -> None:
    for of in goals().values():
        places = [ORDER.index(recipe.evidence) for recipe in of.recipes]
        assert all(one <= next_ for one, next_ in pairwise(places))


@cache
def changes() -> list[tuple[str, str, dict[str, Any]]]:
    """Every change from GRPO with three seeds or more: the folder of the bench, the recipe, and pass@k by name."""
    found = []
    for file in sorted(RESULTS.rglob("results.json")):
        results = json.loads(file.read_bytes())
        if "recipes" not in results or results["bench"]["base"] != "grpo":
            continue
        for name, of in (results.get("untouched") or results)["recipes"].items():
            change = of.get("minus_base", {})
            if change.get("pass@1", {}).get("seeds", 0) >= 3:
                found.append((str(file.parent.relative_to(RESULTS)), name, change))
    return found


def losses(recipe: str, measure: str) -> bool:
    """Whether a recipe is significantly behind GRPO in a measure in some bench."""
    return any(name == recipe and change[measure]["high"] < 0 for _, name, change in changes() if measure in change)


def gains(recipe: str, within: str = "") -> set[str]:
    """The measures in which a recipe is significantly ahead of GRPO in some bench."""
    return {
        measure
        for folder, name, change in changes()
        if name == recipe and within in folder
        for measure, of in change.items()
        if measure.startswith("pass@") and of["low"] is not None and of["low"] > 0
    }


@pytest.mark.parametrize(("goal", "recipe"), ALL, ids=[f"{goal}-{recipe.name}" for goal, recipe in ALL])
def test_evidence_is_what_committed_benches_say(goal: str, recipe: GoalRecipe) -> None:
    if recipe.evidence == "confirmed":
        assert gains(recipe.name, "confirm")
    elif recipe.evidence == "measured":
        assert gains(recipe.name)
    for measure in ("pass@1", "pass@64"):
        if f"lower {measure}" in recipe.note:
            assert losses(recipe.name, measure)
    if "not significantly different" in recipe.note:
        assert any(name == recipe.name for _, name, _ in changes()), "or nothing was compared"
    if "not compared here" in recipe.note or "one seed alone" in recipe.note:
        assert not any(name == recipe.name and folder.startswith(("map/", "explore/", "credit", "methods"))
                       and "screen" not in folder for folder, name, _ in changes())  # fmt: skip


def test_a_goal_is_listed_with_its_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "--goal", "keep-coverage"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "keep-coverage: keep pass@k while pass@1 rises"
    assert [line.split()[:2] for line in lines] == [[r.name, r.evidence] for r in goals()["keep-coverage"].recipes]
    assert main(["recipes", "--goal", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(goals())
    assert main(["recipes", "--goal", "keep-coverge"]) == 2
    assert "did you mean 'keep-coverage'?" in capsys.readouterr().err
    assert main(["recipes", "grpo", "--goal", "length"]) == 2
    assert "takes no words" in capsys.readouterr().err


def test_the_summaries_of_bbg_and_ucpo_are_those_of_their_numbers() -> None:
    """BBG: a gain of pass@16, none from half of eight rollouts on; UCPO: a fifth of the advantage moves."""
    recipes = {name: load_recipe(name) for name in ("bbg", "ucpo")}
    _, gate = recipes["bbg"].credit["main"]
    assert isinstance(gate, BoundaryGate)
    kept = [gate.utility(c, 8) >= gate.threshold * 9 for c in range(9)]
    assert (gate.k, kept) == (16, [c < 4 for c in range(9)])
    assert min(gate.utility(0, 8), gate.utility(1, 8)) == gate.utility(1, 8)
    _, moved = recipes["ucpo"].credit["main"]
    assert isinstance(moved, UniformCorrect)
    assert moved.tau == 0.2
