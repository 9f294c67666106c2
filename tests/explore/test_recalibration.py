"""Recalibration corrects biased predictions, and leaves calibrated ones alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from outrider.explore.pass_rate_model import PassRateModel
from outrider.explore.rate import Rate
from outrider.explore.recalibration import DISCOUNT, MAX_MOVE, RIDGE, Recalibration
from outrider.record import Group, Problem
from scripted import Unmoved, members

Evidence = list[tuple[Rate, int, int]]


def steps(slope: float, shift: float, count: int, seed: int = 0) -> list[Evidence]:
    """Predictions for 32 problems a step, biased by a known map, with 8 rollouts each of a pass rate drawn from it."""
    rng, result = np.random.default_rng(seed), []
    for _ in range(count):
        evidence: Evidence = []
        for logit, sure in zip(rng.normal(-1, 1.5, 32), rng.uniform(2, 20, 32), strict=True):
            raw, true = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(-slope * logit - shift))
            won = int(rng.binomial(8, rng.beta(true * sure, (1 - true) * sure)))
            evidence.append((Rate(raw * sure, (1 - raw) * sure), won, 8 - won))
        result.append(evidence)
    return result


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (1.3, 0.5), (0.7, -0.4)])
def test_recalibration_finds_the_map_and_keeps_calibrated_predictions(slope: float, shift: float) -> None:
    """The mean of the last 60 of 100 steps; the anchor keeps a twentieth of the way."""
    found, path = Recalibration(), []
    for evidence in steps(slope, shift, 100):
        found.learn(evidence)
        path.append((found.slope, found.shift))
    assert np.mean(path[40:], axis=0) == pytest.approx([slope, shift], abs=0.08)
    assert np.std(path[40:], axis=0).max() < 0.12


@pytest.mark.parametrize("seed", range(4))
def test_noise_hardly_moves_calibrated_predictions(seed: int) -> None:
    """On average over 100 steps of 32 problems, and at no step by much."""
    found, moved = Recalibration(), []
    for evidence in steps(1.0, 0.0, 100, seed):
        found.learn(evidence)
        moved.append(max(abs(found.of(Rate(p, 1 - p)).mean - p) for p in (0.05, 0.2, 0.5, 0.8)))
    assert np.mean(moved) < 0.006
    assert max(moved) < 0.04


def test_it_ends_where_the_weighted_regression_has_its_optimum() -> None:
    """Of all steps at once, each less by what was forgotten of it; weights by the prediction, as in the study."""
    every_step, found = steps(1.3, 0.5, 60), Recalibration()
    for evidence in every_step:
        found.learn(evidence)
    slope, shift = found.state_dict()["found"]
    gradient = -RIDGE * np.array([slope - 1, shift])
    information = RIDGE * np.eye(2)
    for age, evidence in enumerate(reversed(every_step)):
        for rate, won, lost in evidence:
            n = won + lost
            weight = DISCOUNT**age * n / (1 + (n - 1) / (rate.a + rate.b + 1))
            at = np.array([np.log(rate.a / rate.b), 1.0])
            mean = 1 / (1 + np.exp(-at @ [slope, shift]))
            gradient += weight * (won / n - mean) * at
            information += weight * mean * (1 - mean) * np.outer(at, at)
    assert np.abs(np.linalg.solve(information, gradient)).max() < 0.02, "what another Newton step would change"


def test_rollouts_of_a_problem_weigh_less_than_as_many_of_different_ones() -> None:
    """By hand: 3 of 4 where Beta(1, 1) predicted one half, weigh as 2 rollouts, each with information 1/4."""
    found = Recalibration()
    found.learn([(Rate(1.0, 1.0), 3, 1)])
    assert found.state_dict()["found"] == pytest.approx([1.0, 2 * (3 / 4 - 1 / 2) / (2 / 4 + RIDGE)])


@pytest.mark.parametrize(("problems", "share"), [(1, 0.0), (100, 1 - 2 / (50 * (50 / 70) ** 2))])
def test_the_map_is_drawn_back_as_far_as_noise_could_have_made_it(problems: int, share: float) -> None:
    """By hand: 100 problems as above have information 50, so a shift of 50 / (50 + 20), whose evidence is 50 times its
    square, where noise alone has 2. One problem has less than that."""
    assert RIDGE == 20
    found = Recalibration()
    found.learn([(Rate(1.0, 1.0), 3, 1)] * problems)
    assert [found.slope, found.shift] == pytest.approx([1.0, share * 50 / 70])


def test_recalibration_moves_the_mean_and_keeps_the_concentration() -> None:
    moved = Recalibration(slope=2.0, shift=0.5).of(Rate(1.0, 3.0))
    assert sum(moved) == pytest.approx(4.0)
    assert np.log(moved.a / moved.b) == pytest.approx(2 * np.log(1 / 3) + 0.5)


@pytest.mark.parametrize("ends", [0.3, 0.9])
def test_fast_progress_does_not_reverse_the_order_of_predictions(ends: float) -> None:
    """After 20 steps without a success a third of the rollouts of one level succeed within a few, or nearly all, and of
    the other next to none: predictions are then certain and wrong, and a whole Newton step would give a slope below
    0."""
    model, rng, taken = PassRateModel(), np.random.default_rng(0), []
    for step in range(40):
        groups = []
        for level, share in (("3", 1.0), ("6", 0.02)):
            chance = share * ends * min(max(step - 20, 0) / 3, 1)
            for i in range(64):
                problem = Problem(f"{level}-{step % 4}-{i}", "?", level=level)
                won = int(rng.binomial(8, chance))
                made = members("1" * won + "0" * (8 - won), problem, step)
                groups.append(Group(problem, f"train:{step}:{problem.id}", tuple(made)))
        model.learn(groups)
        easy, hard = (model.predict(Problem("new", "?", level=level)).rate.mean for level in ("3", "6"))
        taken.append(model.numbers()["taken"])
        assert 0.5 < model.numbers()["slope"] < 2
        if step > 20:
            assert hard < easy
    assert (easy, hard) == (pytest.approx(ends, abs=0.1), pytest.approx(0.02 * ends, abs=0.05))
    assert min(taken) < 1, "the clipped share is reported"
    assert {*taken[:20]} == {*taken[-10:]} == {1.0}


def test_a_step_moves_no_prediction_by_more_than_the_maximum() -> None:
    """Sure of 1 in 1,000, and half of them came: the whole step would be hundreds of logits; then on to the optimum."""
    found, evidence = Recalibration(), [(Rate(0.1, 99.9), 4, 4)] * 100
    found.learn(evidence)
    slope, shift = found.state_dict()["found"]
    assert (slope - 1) * np.log(0.1 / 99.9) + shift == pytest.approx(MAX_MOVE)
    for _ in range(60):
        found.learn(evidence)
    assert found.of(Rate(0.1, 99.9)).mean == pytest.approx(0.5, abs=0.02)


def test_nothing_comes_and_nothing_changes() -> None:
    found = Recalibration()
    found.learn([])
    assert (found.slope, found.shift) == (1.0, 0.0)


def test_it_goes_on_where_it_was_left() -> None:
    whole, first, second = Recalibration(), Recalibration(), Recalibration()
    first_half, second_half = steps(1.3, 0.5, 5), steps(1.3, 0.5, 5, seed=1)
    for evidence in (*first_half, *second_half):
        whole.learn(evidence)
    for evidence in first_half:
        first.learn(evidence)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for evidence in second_half:
        second.learn(evidence)
    assert second.state_dict() == whole.state_dict()


def test_predictions_stay_calibrated_for_problems_that_improve_between_visits() -> None:
    """A pool of 128, a quarter a step, whose pass rates rise by 0.04 in the logit: without recalibration the classes
    lie several standard deviations below what comes."""

    def distance(model: PassRateModel) -> float:
        """Mean square of the distances of classes from their predictions, in standard deviations."""
        rng, sums = np.random.default_rng(5), np.zeros((len(model.calibration), 4))
        logits = rng.normal(-2.5, 2.0, 128)
        for step in range(80):
            chosen = range(step % 4 * 32, step % 4 * 32 + 32)
            groups = []
            for i in chosen:
                problem, won = Problem(f"p{i}", "?"), rng.binomial(8, 1 / (1 + np.exp(-logits[i] - 0.04 * step)))
                ends = "1" * won + "0" * (8 - won)
                groups.append(Group(problem, f"train:{step}:{problem.id}", tuple(members(ends, problem, step))))
            model.learn(groups)
            sums += np.array(model.calibration) if step else 0
        _, expected, variance, successes = sums[sums[:, 0] > 100].T
        return float(((successes - expected) ** 2 / variance).mean())

    assert distance(PassRateModel(recalibration=Unmoved())) > 3 * distance(PassRateModel())
