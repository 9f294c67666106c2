"""The sizes of an evaluation follow the budget of a run, and what a user sets stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.begin import begin, refuse_another
from outrider.bench.planned import Planned, planned
from outrider.bench.proportion import LEAST, MOST
from outrider.bench.spec import given_keys, load_recipes
from outrider.cli import main
from outrider.config import dump_yaml, load_recipe
from outrider.errors import UserError

RECIPES = load_recipes(["grpo"], [])
BUDGETS = st.integers(1, 4_000_000)


def of(tokens: int, **options: object) -> Planned:
    return planned({"tokens": tokens, **options}, RECIPES)


def sizes(made: Planned) -> dict[str, int]:
    evaluate = made.recipes["grpo"].evaluate
    return {"points": made.bench.points, "evaluate.problems": evaluate.problems, "evaluate.n": evaluate.n}


def evaluated(made: Planned) -> int:
    """The most tokens of a run's evaluations: its points, and a greedy response beside the samples."""
    found, recipe = sizes(made), made.recipes["grpo"]
    responses = found["points"] * found["evaluate.problems"] * (found["evaluate.n"] + recipe.evaluate.greedy)
    return responses * recipe.sample.max_tokens


@given(BUDGETS)
def test_evaluation_is_within_the_bound_or_as_small_as_allowed(tokens: int) -> None:
    made = of(tokens)
    assert evaluated(made) <= MOST * tokens or sizes(made) == LEAST
    assert all(least <= size for least, size in zip(LEAST.values(), sizes(made).values(), strict=True))
    assert made.recipes["grpo"].train.evaluate_at == made.bench.shares[:-1]


@given(BUDGETS, BUDGETS)
def test_a_larger_budget_never_has_a_smaller_evaluation(one: int, other: int) -> None:
    less, more = (sizes(of(tokens)) for tokens in sorted((one, other)))
    assert all(less[key] <= more[key] for key in less)


def test_the_sizes_are_lowered_in_turn() -> None:
    """4 points of 300 problems, 64 samples and a greedy response, at most 96 tokens: 7.49 million; the bound is 4."""
    assert sizes(of(1_872_000)) == {"points": 4, "evaluate.problems": 300, "evaluate.n": 64}  # exactly the bound
    assert sizes(of(1_871_999)) == {"points": 3, "evaluate.problems": 300, "evaluate.n": 64}
    assert sizes(of(1_400_000)) == {"points": 3, "evaluate.problems": 150, "evaluate.n": 64}
    assert sizes(of(600_000)) == {"points": 3, "evaluate.problems": 150, "evaluate.n": 32}


@given(BUDGETS, st.integers(1, 6))
def test_what_the_user_sets_stays(tokens: int, points: int) -> None:
    assert of(tokens, points=points).bench.points == points
    own = load_recipes(["grpo"], ["evaluate.n=48"])
    assert planned({"tokens": tokens}, own, {"evaluate.n"}).recipes["grpo"].evaluate.n == 48


def test_files_and_loaded_recipes_count_as_what_the_user_sets(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(dump_yaml({"extends": "grpo", "evaluate": {"problems": 40}}))
    names = set(LEAST)
    assert names & given_keys([str(file)], {}) == {"evaluate.problems"}
    assert names & given_keys([load_recipe("grpo")], {}) == {"evaluate.problems", "evaluate.n"}
    assert names & given_keys(["grpo", "dr-grpo"], {"evaluate": {"n": 3}}) == {"evaluate.n"}


def test_neither_seeds_nor_more_recipes_change_the_sizes() -> None:
    """Both may be added to a bench that has begun."""
    more = planned({"tokens": 99_999, "seeds": 9, "base": "grpo"}, load_recipes(["grpo", "dapo", "dars-hw"], []))
    assert sizes(more) == sizes(of(99_999))


def test_a_budget_of_seconds_lowers_nothing() -> None:
    assert sizes(planned({"seconds": 1.0}, RECIPES)) == sizes(of(10**9))


def test_a_budget_of_steps_counts_the_tokens_of_the_longest_responses() -> None:
    """Ten steps of 32 problems with 8 responses of 96 tokens."""
    assert sizes(planned({"steps": 10}, RECIPES)) == sizes(of(10 * 32 * 8 * 96))


def test_the_plan_says_what_it_lowers_and_warns_of_what_it_may_not(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "grpo", "--seeds", "1", "--tokens", "20000", "--dry-run", "--out", "nowhere"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "--points (points=) 4 -> 1, evaluate.problems 300 -> 50, evaluate.n 64 -> 8" in told
    assert "warning: evaluation" not in told
    assert main([*words, "--points", "4", "evaluate.problems=300", "evaluate.n=64"]) == 0
    told = capsys.readouterr().out
    assert "->" not in told
    assert "warning: evaluation takes up to 374 times the tokens of training" in told


def test_a_bench_that_began_with_other_sizes_says_how_to_go_on(tmp_path: Path) -> None:
    """As one of a version that had 4 points of 300 problems and 64 samples whatever the budget."""
    whole = {"evaluate.problems", "evaluate.n"}
    began = planned({"tokens": 100_000, "points": 4}, RECIPES, whole)
    begin(began.bench, began.recipes, tmp_path / "bench")
    again = of(100_000)
    with pytest.raises(UserError) as told:
        refuse_another(again.bench, again.recipes, tmp_path / "bench")
    assert "sizes of that bench: --points 4 evaluate.problems=300 evaluate.n=64" in str(told.value)
    refuse_another(began.bench, began.recipes, tmp_path / "bench")
    other = planned({"tokens": 99_000, "points": 4}, RECIPES, whole)
    with pytest.raises(UserError, match=r"choose another output folder$"):
        refuse_another(other.bench, other.recipes, tmp_path / "bench")
