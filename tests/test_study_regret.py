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
    for something else, with four times the tokens."""
    found = {planner: code.simulated(planner, pool, seed=7, steps=30) for planner in code.PLANNERS if planner != "DARS"}
    assert found["uniform"][0] == pytest.approx(1.0)
    assert all(oracle - 1e-9 <= share for share, oracle in found.values())
    rest = min(share for planner, (share, _) in found.items() if planner != "invest")
    assert found["invest"][0] < 0.95 * rest
    assert found["invest"][0] < 2.2 * found["invest"][1]
