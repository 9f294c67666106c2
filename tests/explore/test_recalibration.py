"""Recalibration: beliefs that are off are put right, and those that are right stay."""

from __future__ import annotations

import json

import numpy as np
import pytest

from outrider.explore.belief import Belief
from outrider.explore.rate import Rate
from outrider.explore.recalibration import ANCHOR, KEPT, STRIDE, Recalibration
from outrider.record import Group, Problem
from scripted import Unmoved, members

Told = list[tuple[Rate, int, int]]


def steps(slope: float, shift: float, count: int, seed: int = 0) -> list[Told]:
    """Beliefs of 32 problems a step that are off by a known map, with 8 rollouts each of a pass rate drawn from it."""
    rng, result = np.random.default_rng(seed), []
    for _ in range(count):
        told: Told = []
        for logit, sure in zip(rng.normal(-1, 1.5, 32), rng.uniform(2, 20, 32), strict=True):
            raw, true = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(-slope * logit - shift))
            won = int(rng.binomial(8, rng.beta(true * sure, (1 - true) * sure)))
            told.append((Rate(raw * sure, (1 - raw) * sure), won, 8 - won))
        result.append(told)
    return result


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (1.3, 0.5), (0.7, -0.4)])
def test_the_map_is_found_and_beliefs_that_are_right_stay(slope: float, shift: float) -> None:
    """The mean of the last 60 of 100 steps; the anchor keeps a twentieth of the way."""
    found, path = Recalibration(), []
    for told in steps(slope, shift, 100):
        found.learn(told)
        path.append((found.slope, found.shift))
    assert np.mean(path[40:], axis=0) == pytest.approx([slope, shift], abs=0.08)
    assert np.std(path[40:], axis=0).max() < 0.12


@pytest.mark.parametrize("seed", range(4))
def test_noise_hardly_moves_beliefs_that_are_right(seed: int) -> None:
    """On average over 100 steps of 32 problems, and at no step by much."""
    found, moved = Recalibration(), []
    for told in steps(1.0, 0.0, 100, seed):
        found.learn(told)
        moved.append(max(abs(found.of(Rate(p, 1 - p)).mean - p) for p in (0.05, 0.2, 0.5, 0.8)))
    assert np.mean(moved) < 0.006
    assert max(moved) < 0.04


def test_it_ends_where_the_weighted_regression_has_its_optimum() -> None:
    """Of all steps at once, each less by what was forgotten of it; weights by what was believed, as in the study."""
    all_told, found = steps(1.3, 0.5, 60), Recalibration()
    for told in all_told:
        found.learn(told)
    slope, shift = found.state_dict()["found"]
    gradient = -ANCHOR * np.array([slope - 1, shift])
    information = ANCHOR * np.eye(2)
    for age, told in enumerate(reversed(all_told)):
        for rate, won, lost in told:
            n = won + lost
            weight = KEPT**age * n / (1 + (n - 1) / (rate.a + rate.b + 1))
            at = np.array([np.log(rate.a / rate.b), 1.0])
            mean = 1 / (1 + np.exp(-at @ [slope, shift]))
            gradient += weight * (won / n - mean) * at
            information += weight * mean * (1 - mean) * np.outer(at, at)
    assert np.abs(np.linalg.solve(information, gradient)).max() < 0.02, "what another Newton step would change"


def test_rollouts_of_a_problem_weigh_less_than_as_many_of_different_ones() -> None:
    """By hand: 3 of 4 where one half was believed, by Beta(1, 1), weigh as 2 rollouts, each with information 1/4."""
    found = Recalibration()
    found.learn([(Rate(1.0, 1.0), 3, 1)])
    assert found.state_dict()["found"] == pytest.approx([1.0, 2 * (3 / 4 - 1 / 2) / (2 / 4 + ANCHOR)])


@pytest.mark.parametrize(("problems", "share"), [(1, 0.0), (100, 1 - 2 / (50 * (50 / 70) ** 2))])
def test_the_map_is_drawn_back_as_far_as_noise_could_have_made_it(problems: int, share: float) -> None:
    """By hand: 100 problems as above have information 50, so a shift of 50 / (50 + 20), whose evidence is 50 times its
    square, where noise alone has 2. One problem has less than that."""
    assert ANCHOR == 20
    found = Recalibration()
    found.learn([(Rate(1.0, 1.0), 3, 1)] * problems)
    assert [found.slope, found.shift] == pytest.approx([1.0, share * 50 / 70])


def test_the_mean_moves_and_how_sure_a_belief_is_stays() -> None:
    moved = Recalibration(slope=2.0, shift=0.5).of(Rate(1.0, 3.0))
    assert sum(moved) == pytest.approx(4.0)
    assert np.log(moved.a / moved.b) == pytest.approx(2 * np.log(1 / 3) + 0.5)


@pytest.mark.parametrize("ends", [0.3, 0.9])
def test_a_policy_that_takes_off_turns_no_beliefs_round(ends: float) -> None:
    """After 20 steps without a success a third of the rollouts of one level succeed within a few, or nearly all, and of
    the other next to none: beliefs are then sure and wrong, and a whole Newton step would give a slope below 0."""
    belief, rng, taken = Belief(), np.random.default_rng(0), []
    for step in range(40):
        groups = []
        for level, share in (("3", 1.0), ("6", 0.02)):
            chance = share * ends * min(max(step - 20, 0) / 3, 1)
            for i in range(64):
                problem = Problem(f"{level}-{step % 4}-{i}", "?", level=level)
                won = int(rng.binomial(8, chance))
                made = members("1" * won + "0" * (8 - won), problem, step)
                groups.append(Group(problem, f"train:{step}:{problem.id}", tuple(made)))
        belief.learn(groups)
        easy, hard = (belief.expected(Problem("new", "?", level=level)).rate.mean for level in ("3", "6"))
        taken.append(belief.numbers()["taken"])
        assert 0.5 < belief.numbers()["slope"] < 2
        if step > 20:
            assert hard < easy
    assert (easy, hard) == (pytest.approx(ends, abs=0.1), pytest.approx(0.02 * ends, abs=0.05))
    assert min(taken) < 1, "the clipped share is reported"
    assert {*taken[:20]} == {*taken[-10:]} == {1.0}


def test_a_step_moves_no_belief_by_more_than_a_stride() -> None:
    """Sure of 1 in 1,000, and half of them came: the whole step would be hundreds of logits; then on to the optimum."""
    found, told = Recalibration(), [(Rate(0.1, 99.9), 4, 4)] * 100
    found.learn(told)
    slope, shift = found.state_dict()["found"]
    assert (slope - 1) * np.log(0.1 / 99.9) + shift == pytest.approx(STRIDE)
    for _ in range(60):
        found.learn(told)
    assert found.of(Rate(0.1, 99.9)).mean == pytest.approx(0.5, abs=0.02)


def test_nothing_comes_and_nothing_changes() -> None:
    found = Recalibration()
    found.learn([])
    assert (found.slope, found.shift) == (1.0, 0.0)


def test_it_goes_on_where_it_was_left() -> None:
    whole, first, second = Recalibration(), Recalibration(), Recalibration()
    first_half, second_half = steps(1.3, 0.5, 5), steps(1.3, 0.5, 5, seed=1)
    for told in (*first_half, *second_half):
        whole.learn(told)
    for told in first_half:
        first.learn(told)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for told in second_half:
        second.learn(told)
    assert second.state_dict() == whole.state_dict()


def test_problems_that_get_better_while_nobody_looks_are_believed_as_good_as_they_are() -> None:
    """A pool of 128, a quarter a step, whose pass rates rise by 0.04 in the logit: without recalibration the classes
    lie several standard deviations below what comes."""

    def apart(belief: Belief) -> float:
        """Mean square of the distances of classes from what was believed, in standard deviations."""
        rng, sums = np.random.default_rng(5), np.zeros((len(belief.told), 4))
        logits = rng.normal(-2.5, 2.0, 128)
        for step in range(80):
            chosen = range(step % 4 * 32, step % 4 * 32 + 32)
            groups = []
            for i in chosen:
                problem, won = Problem(f"p{i}", "?"), rng.binomial(8, 1 / (1 + np.exp(-logits[i] - 0.04 * step)))
                ends = "1" * won + "0" * (8 - won)
                groups.append(Group(problem, f"train:{step}:{problem.id}", tuple(members(ends, problem, step))))
            belief.learn(groups)
            sums += np.array(belief.told) if step else 0
        _, expected, variance, successes = sums[sums[:, 0] > 100].T
        return float(((successes - expected) ** 2 / variance).mean())

    assert apart(Belief(recalibration=Unmoved())) > 3 * apart(Belief())
