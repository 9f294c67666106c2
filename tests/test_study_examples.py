"""``benchmarks/studies/examples.py``: which solved problems stand in front of a question."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from outrider.explore.embed import Tfidf

STUDIES = Path(__file__).parent.parent / "benchmarks" / "studies"
SIGNS = {"plus": "+", "minus": "-", "times": "*", "divided": "/"}


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    return importlib.import_module("examples")


def calculations(solution: str) -> tuple[bool, list[str]]:
    """Whether signs are words, and the sign of every calculation."""
    found = re.findall(r"\d+ (plus|minus|times|divided|[-+*/]) ", solution)
    return any(sign in SIGNS for sign in found), [SIGNS.get(sign, sign) for sign in found]


def test_alike_is_solved_by_the_same_calculations_in_the_same_manner_and_not_held_out(study):
    stories = [story for story in study.asked_stories()[:60] if not story.manner.in_parts]
    assert len(stories) > 30
    for story in stories:
        texts = study.alike(story, 2)
        assert len({story.question, *(text.split("\n")[0].removeprefix("Q: ") for text in texts)}) == 3
        for text in texts:
            question, solution, *rest = text.split("\n")
            assert (question.startswith("Q: "), solution.startswith("A: "), rest) == (True, True, ["", ""])
            assert calculations(solution) == calculations(story.solution)


def test_those_asked_are_held_out_and_no_example_is(study, monkeypatch):
    monkeypatch.setattr(study, "KNOWN", 300)
    stories = study.asked_stories()[:30]
    assert all(study.is_heldout(story) for story in stories)
    ways = study.examples(stories)
    assert {name: [len(each) for each in of] for name, of in ways.items()} == dict.fromkeys(ways, [2] * 30)
    questions = {f"Q: {story.question}" for story in stories}
    assert not any(text.split("\n")[0] in questions for of in ways.values() for each in of for text in each)


def test_the_nearest_of_all_stands_next_to_the_question(study, monkeypatch):
    monkeypatch.setattr(study, "KNOWN", 300)
    stories = study.asked_stories()[:30]
    known = [study.TASK.train(i).prompt for i in range(300)]
    cosines = Tfidf().cosines([study.asked(story) for story in stories], known)
    for of, row in zip(study.examples(stories)["nearest"], cosines, strict=True):
        second, first = sorted(row)[-2:]
        shown = [row[known.index(text.split("\nA:")[0] + "\nA:")] for text in of]
        assert shown == [second, first]
