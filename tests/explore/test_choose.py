"""Choose: which problems are accepted, by their predictions."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.explore import Choose
from outrider.explore.choose import token_value
from outrider.explore.pass_rate_model import Prediction
from outrider.explore.rate import Rate
from outrider.explore.stream import ProblemStream
from outrider.record import Group, Problem
from scripted import members, view


def seen(level: str, ends: str, tokens: int, chance: float = 0.5, name: str = "") -> Group:
    """A problem of a level with rollouts that end so, of so many tokens, each drawn with this chance."""
    problem = Problem(f"{level}/{name or ends}", "?", level=level)
    ids = {"token_ids": np.full(tokens, 5, np.int32), "logprobs_T": np.full(tokens, np.log(chance), np.float32)}
    return Group(problem, f"train:1:{problem.id}", tuple(members(ends, problem, 1, **ids)))


def taken(stage: Choose, level: str, offers: int = 4000) -> float:
    return sum(stage.admits(Problem(f"new/{level}/{i}", "?", level=level), 2) for i in range(offers)) / offers


def test_half_the_length_has_four_times_the_token_value() -> None:
    """Half of the tokens and half of the noise, at one pass rate."""
    stage = Choose(enough=1.0)
    stage.observe([seen("short", "10", tokens=4), seen("long", "10", tokens=8)])
    assert stage.chance(Problem("a", "?", level="short")) == 1
    assert stage.chance(Problem("b", "?", level="long")) == pytest.approx(1 / 4)
    assert taken(stage, "short") == 1
    assert taken(stage, "long") == pytest.approx(1 / 4, abs=0.02)


def test_tokens_that_are_sure_are_no_noise() -> None:
    """Of the same length, drawn with a chance of 1/2 and of 3/4."""
    stage = Choose(enough=1.0)
    stage.observe([seen("torn", "10", 4, chance=0.5), seen("sure", "10", 4, chance=0.75)])
    assert stage.chance(Problem("a", "?", level="torn")) == pytest.approx(1 / 2)


def test_problems_above_the_threshold_are_accepted_like_the_best() -> None:
    for enough, chance in ((1.0, 1 / 4), (0.5, 1 / 2), (0.25, 1.0)):
        stage = Choose(enough=enough)
        stage.observe([seen("short", "10", tokens=4), seen("long", "10", tokens=8)])
        assert stage.chance(Problem("b", "?", level="long")) == pytest.approx(chance)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_token_value_follows_the_derivative_of_pass_at_k(k: int) -> None:
    """By the integral over a grid of pass rates; what is mostly solved loses more than what is seldom solved."""
    p = (np.arange(20_000) + 0.5) / 20_000

    def by_grid(a: float, b: float) -> float:
        density = p ** (a - 1) * (1 - p) ** (b - 1)
        slope = k * (1 - p) ** (k - 1)
        return float((density * slope * p * (1 - p)).sum() / density.sum())

    for a, b in ((8.0, 2.0), (2.0, 8.0), (1.0, 1.0)):
        assert k * token_value(Prediction(Rate(a, b), 4.0, 0.5), k) == pytest.approx(by_grid(a, b) / 2, rel=1e-4)
    mostly, seldom = (token_value(Prediction(Rate(*ends), 4.0, 0.5), k) for ends in ((8.0, 2.0), (2.0, 8.0)))
    assert (mostly < seldom) == (k > 1)


def test_a_stage_goes_by_its_k() -> None:
    """Of levels of which 7 of 8 and 1 of 8 are solved, larger k refuses the first."""
    chances = {}
    for k in (1, 4):
        stage = Choose(enough=1.0, floor=0.001, k=k)
        stage.observe([seen("mostly", "11111110", tokens=4), seen("seldom", "00000001", tokens=4)])
        chances[k] = stage.chance(Problem("a", "?", level="mostly"))
    assert chances[1] == pytest.approx(1.0)
    assert chances[4] < 0.5


def test_what_is_out_of_reach_waits_but_stays_in_view() -> None:
    stage = Choose(floor=0.05)
    stage.observe([seen("easy", "10", 4), *(seen("hard", "0000", 4, name=str(i)) for i in range(200))])
    assert taken(stage, "hard") == pytest.approx(0.05, abs=0.012)
    assert taken(stage, "easy") == 1


@pytest.mark.parametrize("ends", ["", "11", "00"])
def test_equal_predictions_accept_every_problem(ends: str) -> None:
    """Before the first step, and where all of one level fare alike: another new one is as good as any."""
    stage = Choose()
    stage.observe([seen("", ends, 4)] if ends else [])
    assert taken(stage, "", 100) == 1


def test_a_level_with_certain_tokens_has_value_zero() -> None:
    """Beside another it has the floor; alone, no level has a higher value."""
    sure = seen("sure", "10", 4, chance=1.0)
    assert token_value(Prediction(Rate(1.0, 1.0), tokens=4.0, noise=0.0)) == 0
    alone, beside = Choose(floor=0.1), Choose(floor=0.1)
    alone.observe([sure])
    beside.observe([sure, seen("torn", "10", 4)])
    assert taken(alone, "sure") == 1
    assert taken(beside, "sure") == pytest.approx(0.1, abs=0.02)


def test_a_pool_is_never_drained() -> None:
    """Of a pool in which all was unsolved for long, a step still finds its problems."""
    pool = [Problem(f"p{i}", "?") for i in range(8)]
    stage = Choose(floor=0.02)
    for _ in range(20):
        stage.observe([Group(p, f"train:1:{p.id}", tuple(members("00", p, 1))) for p in pool[1:]] + [seen("", "10", 3)])
    stream = ProblemStream(lambda index: pool[index % 8])
    assert len(stream.take(8, admits=lambda problem: stage.admits(problem, 3))) == 8


def test_which_problems_come_up_differs_by_run_step_and_offer() -> None:
    """Of 400 that are taken with a chance of 1/4, two draws agree on 5/8; one that is drawn again is the same."""

    def drawn(seed: int, step: int, offers: int = 1) -> list[bool]:
        stage = Choose(enough=1.0)
        stage.observe([seen("short", "10", tokens=4), seen("long", "10", tokens=8)])
        stage.plan(view([], step, seed=seed))
        problems = [Problem(f"new/{i}", "?", level="long") for i in range(400)]
        return [[stage.admits(problem, step) for problem in problems] for _ in range(offers)][-1]

    assert drawn(0, 1) == drawn(0, 1)
    for other in (drawn(1, 1), drawn(0, 2), drawn(0, 1, offers=2)):
        assert sum(a == b for a, b in zip(drawn(0, 1), other, strict=True)) == pytest.approx(250, abs=40)


def test_what_was_offered_and_refused_is_counted_for_a_step() -> None:
    stage = Choose(enough=1.0, floor=1e-9)
    stage.observe([seen("easy", "10", 4), *(seen("hard", "00000000", 4, name=str(i)) for i in range(2000))])
    taken(stage, "easy", 3)
    taken(stage, "hard", 5)
    counted = stage.observe([])
    assert (counted["offered"], counted["refused"]) == (8, 5)
    counted = stage.observe([])
    assert (counted["offered"], counted["refused"]) == (0, 0)
