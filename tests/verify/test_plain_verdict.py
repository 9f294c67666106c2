"""Outcome and score of a verdict of other people's code agree, whoever made it."""

from __future__ import annotations

import math

import pytest

from outrider.record import Outcome, Problem, Verdict
from outrider.tasks.task import Task, verify_all
from outrider.verify.plain_verdict import plain_verdict


class Own(Task):
    """A task of one's own, whose verdict is its problem's answer."""

    @property
    def name(self) -> str:
        return "own"

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        outcome, score = problem.answer
        return Verdict(Outcome(outcome), score, seconds=2.0, answer=text)


CASES = [
    ("correct", 1.0, "correct", 1.0),
    ("correct", 0.0, "correct", 0.0),
    ("incorrect", 0.75, "incorrect", 0.75),
    ("incorrect", -1.0, "incorrect", -1.0),
    ("unparseable", 0.0, "unparseable", 0.0),
    ("correct", math.nan, "error", math.nan),
    ("correct", math.inf, "error", math.nan),
    ("incorrect", math.nan, "error", math.nan),
    ("incorrect", -math.inf, "error", math.nan),
    ("unparseable", math.nan, "error", math.nan),
    ("timeout", 0.0, "timeout", math.nan),
    ("error", 1.0, "error", math.nan),
    ("error", math.nan, "error", math.nan),
]


@pytest.mark.parametrize(("outcome", "score", "kept", "its_score"), CASES)
def test_an_outcome_has_the_score_that_it_allows(outcome: str, score: float, kept: str, its_score: float) -> None:
    [found] = verify_all(Own(), [(Problem("p", "", (outcome, score)), "7", True)])
    assert found.outcome.value == kept
    assert repr(found.score) == repr(its_score)
    assert found.success is (kept == "correct")
    assert (found.answer, found.seconds) == ("7", 2.0)
    if kept != outcome:
        assert found.detail == f"its verdict is {outcome} with the score {score}"


@pytest.mark.parametrize("said", [True, None, "correct", 1.0, (Outcome.CORRECT, 1.0)])
def test_what_is_no_verdict_is_refused(said: object) -> None:
    with pytest.raises(TypeError, match="not a Verdict"):
        plain_verdict(said)
