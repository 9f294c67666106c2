"""``benchmarks/studies/examples.py``: which solved problems stand in front of a question."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outrider.explore.embed import Tfidf
from outrider.tasks.stories import Story, tell
from outrider.tasks.word_problems import is_heldout

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"
SIGNS = {"plus": "+", "minus": "-", "times": "*", "divided": "/"}


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(STUDIES))
    return importlib.import_module("examples")


def signs(solution: str) -> list[str]:
    """Of the calculations."""
    return [SIGNS.get(sign, sign) for sign in re.findall(r"\d+ (plus|minus|times|divided|[-+*/]) ", solution)]


def test_alike_is_solved_by_the_same_calculations_in_the_same_manner_and_not_held_out(
    study: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Story] = {}

    def remembered(*words: Any) -> Story | None:
        if one := tell(*words):
            told[study.solved(one)] = one
        return one

    monkeypatch.setattr(study, "tell", remembered)
    stories = study.asked_stories()[:60]
    found = [(story, told[text]) for story in stories for text in study.alike(story, 2)]
    assert any(is_heldout(one) for one in told.values())  # such were told, and excluded
    assert not any(is_heldout(one) for _, one in found)
    assert len({one.question for _, one in found} | {story.question for story in stories}) == 180
    assert all(one.manner == story.manner for story, one in found)
    plain = [(story, one) for story, one in found if not story.manner.in_parts]
    assert len(plain) > 60
    assert all(signs(one.solution) == signs(story.solution) for story, one in plain)


def test_those_asked_are_held_out_and_never_an_example(study: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "KNOWN", 300)
    stories = study.asked_stories()[:30]
    assert all(study.is_heldout(story) for story in stories)
    ways = study.examples(stories)
    assert {name: [len(each) for each in of] for name, of in ways.items()} == dict.fromkeys(ways, [2] * 30)
    questions = {f"Q: {story.question}" for story in stories}
    assert not any(text.split("\n")[0] in questions for of in ways.values() for each in of for text in each)


def test_the_nearest_of_all_stands_next_to_the_question(study: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "KNOWN", 300)
    stories = study.asked_stories()[:30]
    known = [study.TASK.train(i).prompt for i in range(300)]
    cosines = Tfidf().cosines([study.asked(story) for story in stories], known)
    for of, row in zip(study.examples(stories)["nearest"], cosines, strict=True):
        second, first = sorted(row)[-2:]
        shown = [row[known.index(text.split("\nA:")[0] + "\nA:")] for text in of]
        assert shown == [second, first]
