"""Planners against the one who knows every pass rate, in simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from study_code import study_code

code = study_code("_regret")


def test_the_one_who_knows_has_the_best_of_all_allocations() -> None:
    spreads, prices, n = np.array([0.25, 0.05, 0.01]), np.array([2.0, 2.0, 2.0]), 4.0
    ways = [np.array(way, float) for way in itertools.product(range(2, 9), repeat=3) if sum(way) == 12]
    found = code.best(spreads, prices, n)
    assert found.sum() == 12
    assert code.variance(spreads, found) == pytest.approx(min(code.variance(spreads, way) for way in ways))


@pytest.mark.parametrize("pool", [None, 256])
def test_invest_is_nearest_to_the_one_who_knows(pool: int | None) -> None:
    """Thirty steps. Uniform has 1 by definition, and nobody has less than the one who knows. Without DARS, which goes
    for something else, with four times the tokens. ``choose`` allots nothing: it gains by which problems come up, most
    of what the same rule does by what is so."""
    planners = [planner for planner in (*code.PLANNERS, code.KNOWS) if planner != "DARS"]
    found = {planner: code.simulated(planner, pool, seed=7, steps=30) for planner in planners}
    assert found["uniform"].variance == pytest.approx(1.0)
    assert all(each.known - 1e-9 <= each.variance for each in found.values())
    rest = min(each.variance for planner, each in found.items() if planner != "invest")
    assert found["invest"].variance < 0.95 * rest
    assert found["invest"].variance < 2.2 * found["invest"].known
    others = max(each.gain for planner, each in found.items() if planner not in ("choose", code.KNOWS))
    assert found["choose"].gain > 1.5 * others
    assert found["choose"].gain > 0.6 * found[code.KNOWS].gain  # whose rule is the same, and no upper bound


def test_a_step_gains_most_where_a_rollout_weighs_what_it_says_over_its_noise() -> None:
    """Weights as large as C / N of a rollout are the best ones (the study's docstring); here N is noise times C."""
    rates, noises, prices, counts = (
        np.array([0.5, 0.1]),
        np.array([1.0, 4.0]),
        np.array([5.0, 9.0]),
        np.array([3.0, 8.0]),
    )
    best = code.gain(rates, noises, prices, counts, 1 / noises)
    towards = rates * (1 - rates)
    assert best == pytest.approx((counts * towards / noises).sum() / (counts @ prices))
    for weights in (np.array([1.0, 1.0]), np.array([1.0, 0.3]), np.array([1.0, 0.2])):
        assert code.gain(rates, noises, prices, counts, weights) < best
