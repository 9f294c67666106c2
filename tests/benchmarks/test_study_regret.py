"""Planners against the one who knows every pass rate, in simulation."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from study_code import study_code

code = study_code("_regret")
simulated = functools.cache(code.simulated)


def test_the_one_who_knows_has_the_best_of_all_allocations() -> None:
    spreads, prices, n = np.array([0.25, 0.05, 0.01]), np.array([2.0, 2.0, 2.0]), 4.0
    ways = [np.array(way, float) for way in itertools.product(range(2, 9), repeat=3) if sum(way) == 12]
    found = code.best(spreads, prices, n)
    assert found.sum() == 12
    assert code.variance(spreads, found) == pytest.approx(min(code.variance(spreads, way) for way in ways))


def means(planner: str, pool: int | None, seeds: range) -> Any:
    """Of thirty steps of each seed. Nobody has less variance than the one who knows."""
    runs = [simulated(planner, pool, seed, steps=30) for seed in seeds]
    assert all(each.known - 1e-9 <= each.variance for each in runs)
    return code.Simulated(*np.mean(runs, axis=0))


@pytest.mark.parametrize(
    ("pool", "planners"),
    [
        (None, ["uniform", "XRPO", "VIP"]),
        (256, ["CurES", "VIP"]),  # which know more of what returns, as invest does
    ],
)
def test_invest_is_nearest_to_the_one_who_knows(pool: int | None, planners: list[str]) -> None:
    """Six seeds, since single ones differ by a tenth. Uniform has 1 by definition. Without DARS, which goes for
    something else with four times the tokens, and without those that are always further off (the study's figure)."""
    seeds = range(7, 13)
    found = {planner: means(planner, pool, seeds).variance for planner in planners}
    assert found.get("uniform", 1.0) == pytest.approx(1.0)
    invest = means("invest", pool, seeds)
    assert invest.variance < 0.95 * min(found.values())
    assert invest.variance < 2.2 * invest.known


@pytest.mark.parametrize("pool", [None, 256])
def test_choose_gains_most_of_what_its_rule_can_and_more_than_those_that_allot(pool: int | None) -> None:
    """It allots nothing: it gains by which problems come up."""
    rivals = [planner for planner in code.PLANNERS if planner != "choose"]
    gains = {planner: means(planner, pool, range(7, 8)).gain for planner in (*rivals, "choose", code.KNOWS)}
    assert gains["choose"] > 1.5 * max(gains[planner] for planner in rivals)
    assert gains["choose"] > 0.6 * gains[code.KNOWS]  # whose rule is the same, and no upper bound


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
