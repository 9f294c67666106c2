"""QuestA: what of a solution stands in which prompt, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.explore import Hint
from outrider.explore.outcome import first_pass
from outrider.record import Group, Problem, SampleRequest
from outrider.testing.scripted import SteppedEngine
from scripted import members, view

SOLUTION = "First add two and three, which is five."  # 39 characters


class Letters(SteppedEngine):
    """Each letter is a token, in the brackets of a chat format."""

    def encode(self, problem: Problem) -> np.ndarray:
        return np.array([ord(letter) for letter in f"[{problem.prompt}]"], np.int32)


def problem(solution: object = SOLUTION, prompt: str = "2+3=?", **metadata: object) -> Problem:
    return Problem("p0", prompt, metadata={"solution": solution, **metadata})


def asked(stage: Hint, *problems: Problem, progress: float = 0.0, limit: int = 1000) -> list[SampleRequest]:
    groups = [Group(each, f"train:1:{each.id}") for each in problems]
    return stage.plan(replace(view(groups, 1), engine=Letters(), progress=progress, prompt_limit=limit))


def text(request: SampleRequest) -> str:
    return "".join(map(chr, request.prompt_ids))


def test_the_released_prompt() -> None:
    """Half of the characters, rounded down, right behind the words that the released script has."""
    [request] = asked(Hint(), problem())
    assert text(request) == "[2+3=?\n\n## Hint.First add two and t]"
    assert (request.n, request.context.exemplars, request.context.trained) == (16, ("p0",), "as_generated")


@pytest.mark.parametrize(
    ("progress", "shown"), [(0.0, 26), (0.32, 26), (0.34, 13), (0.65, 13), (0.67, 0), (0.999, 0), (1.0, 0)]
)
def test_shares_follow_each_other_in_equal_parts_of_the_run(progress: float, shown: int) -> None:
    """Two thirds of 39 characters, one third, and nothing, which is the plain prompt."""
    [request] = asked(Hint(shares=[0.667, 0.334, 0.0]), problem(), progress=progress)
    if shown:
        assert text(request).removesuffix("]").partition("## Hint.")[2] == SOLUTION[:shown]
    else:
        assert request.prompt_ids is None
        assert request.context.kind == "plain"


def test_thoughts_are_no_part_of_a_solution() -> None:
    [request] = asked(Hint(shares=[1.0]), problem("<think>Two? Or seven?</think>\n" + SOLUTION))
    assert text(request).endswith(f"## Hint.{SOLUTION}]")


def test_a_hint_stands_behind_the_question_and_the_words_around_it_stay() -> None:
    """Braces in question or solution are letters like all others."""
    odd = problem("{question} {hint} is a set of two", "Solve {hint}! Box the answer.", question="{hint}!")
    [request] = asked(Hint(shares=[1.0], template="({hint}) {question}"), odd)
    assert text(request) == "[Solve ({question} {hint} is a set of two) {hint}! Box the answer.]"


def test_ten_characters_are_the_fewest_that_are_shown() -> None:
    """Half of 20; of 19 there would be nine."""
    [request] = asked(Hint(), problem(SOLUTION[:20]))
    assert text(request).endswith(f"## Hint.{SOLUTION[:10]}]")


@pytest.mark.parametrize(
    ("given", "limit"), [(problem(None), 1000), (problem(7), 1000), (problem(SOLUTION[:19]), 1000), (problem(), 35)]
)
def test_without_a_hint_the_prompt_is_plain_and_counted(given: Problem, limit: int) -> None:
    """No solution, none that is a text, nine characters of one, or a prompt of 36 tokens where 35 have room."""
    stage = Hint(n=3)
    [request] = asked(stage, given, limit=limit)
    assert request.prompt_ids is None
    assert request.context.kind == "plain"
    assert stage.observe([]) == {"hinted": 0.0, "unhinted": 3.0}
    assert asked(stage, problem(), limit=36)[0].prompt_ids is not None
    assert stage.observe([]) == {"hinted": 3.0, "unhinted": 0.0}


def test_a_success_with_a_hint_is_no_pass_rate() -> None:
    [request] = asked(Hint(), problem())
    drawn = [replace(r, context=request.context) for r in members("11", problem(), 1)]
    assert first_pass(Group(problem(), "train:1:p0").joined(drawn)) == []


@pytest.mark.parametrize(
    ("explore", "sentence"),
    [
        ("[uniform, hint]", "it comes in place of uniform"),
        ("[{hint: {template: '{question}'}}]", "must contain {hint} exactly once"),
        ("[{hint: {template: '{question} {question} {hint}'}}]", "must contain {question} exactly once"),
        ("[{hint: {shares: []}}]", "at least 1 item"),
        ("[{hint: {shares: [1.5]}}]", "should be at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused(explore: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_recipe("grpo", [f"explore={explore}"])
