"""Several verifiers with weights, against sums that are computed here."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.record import Outcome, Problem, Verdict
from outrider.verify.verifiers import VERIFIERS
from outrider.verify.weighted_sum import WeightedSum

REWARDS = """
def length(problem, completion):
    return len(completion) / 10

def of_maths(completions, kind, **columns):
    return [1.0 if kind[0] == "maths" else None for _ in completions]

def raises(problem, completion):
    raise ValueError("the author's mistake")
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("rewards") / "rewards.py"
    place.write_text(REWARDS)
    return str(place)


def function(file: str, name: str, style: str = "plain") -> dict[str, object]:
    return {"function": {"function": f"{file}:{name}", "style": style}}


def asked(verifier: WeightedSum, text: str, **fields: object) -> Verdict:
    row = {"answer": "7", **fields}
    return verifier.verify(Problem("p", "3+4", verifier.reference(row, "answer")), text, True)


@given(weights=st.lists(st.floats(-5, 5), min_size=2, max_size=2), right=st.booleans())
def test_the_score_is_the_weighted_sum(file: str, weights: list[float], right: bool) -> None:
    made = WeightedSum.model_validate({"verifiers": ["exact", function(file, "length")], "weights": weights})
    text = "7" if right else "8"
    verdict = asked(made, text)
    expected = weights[0] * right + weights[1] * 0.1
    assert verdict.score == pytest.approx(expected)
    assert verdict.outcome is (Outcome.CORRECT if expected >= 1 else Outcome.INCORRECT)
    assert verdict.answer == text


def test_success_is_decided_by_the_sum(file: str) -> None:
    made = {"verifiers": ["exact", function(file, "length")], "success_at": 1.05}
    assert asked(WeightedSum.model_validate(made), "7").success
    assert not asked(WeightedSum.model_validate({**made, "success_at": 1.2}), "7").success


def test_a_function_that_returns_none_is_excluded_and_not_zero(file: str) -> None:
    made = WeightedSum.model_validate({"verifiers": [function(file, "of_maths", "trl"), "exact"], "weights": [3, 1]})
    assert asked(made, "7", kind="maths").score == 4
    left = asked(made, "7", kind="code")
    assert (left.score, left.detail) == (1, "1 of 2 rewards returned None")
    alone = WeightedSum.model_validate({"verifiers": [function(file, "of_maths", "trl")]})
    verdict = asked(alone, "7", kind="code")
    assert verdict.outcome is Outcome.ERROR
    assert math.isnan(verdict.score)


def test_a_part_that_fails_fails_the_sum(tmp_path: Path, file: str) -> None:
    """In the pool, where the table verifies, its exception is an error; the other part does not hide it."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "3+4", "answer": "7"}\n')
    verifier = {"weighted_sum": {"verifiers": ["exact", function(file, "raises")]}}
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text('{"problem": "1+1", "answer": "2"}\n')
    table = {"train_data": str(rows), "heldout_data": str(held_out), "prompt": "{problem}", "verifier": verifier}
    task = load_recipe("grpo", {"task": {"table": table}}, model="base:countdown").task
    try:
        verdict = task.verify(task.train(0), "7", True)
    finally:
        task.close()
    assert verdict.outcome is Outcome.ERROR
    assert "the author's mistake" in verdict.detail


def test_reasoning_is_read_by_each_verifier(file: str) -> None:
    made = WeightedSum.model_validate({"verifiers": ["exact", function(file, "length")], "weights": [1, 0]})
    assert asked(made, "<think>8</think>7").success
    unclosed = asked(made, "<think>7")
    assert (unclosed.outcome, unclosed.score) == (Outcome.INCORRECT, 0.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"verifiers": []}, "at least 1"),
        ({"verifiers": ["exact"], "weights": [1, 2]}, "weights has 2 numbers for 1 verifiers"),
        ({"verifiers": ["exact"], "weights": [math.inf]}, "finite number"),
        ({"verifiers": ["exakt"]}, "'exakt' is not a verifier"),
        ({"verifiers": [{"weighted_sum": {"verifiers": ["exact"]}}]}, "'weighted_sum' is not a verifier"),
    ],
)
def test_mistakes_are_one_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        WeightedSum.model_validate(options)


def test_a_recipe_names_it(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"problem": "3+4", "answer": "7"}\n')
    table = {"train_data": str(rows), "heldout_data": str(rows), "prompt": "{problem}"}
    given = {**table, "verifier": {"weighted_sum": {"verifiers": ["exact", "number"], "weights": [1, 1]}}}
    recipe = load_recipe("grpo", {"task": {"table": given}}, model="base:countdown")
    again = load_recipe("grpo", {"task": recipe.resolved()["task"]}, model="base:countdown")
    assert again.task == recipe.task
    given["verifier"] = {"weighted_sum": {"verifiers": ["exact"], "weights": [1, 1]}}
    with pytest.raises(UserError, match="weights has 2 numbers for 1 verifiers"):
        load_recipe("grpo", {"task": {"table": given}}, model="base:countdown")
    assert VERIFIERS["weighted_sum"] is WeightedSum
