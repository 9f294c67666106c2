"""Gradients of single problems: products without bias, and an estimate of the pass rate's gradient."""

from __future__ import annotations

import numpy as np
import pytest
from study_code import study_code

code = study_code("_worth")


def test_products_are_right_on_average_however_noisy_the_estimates() -> None:
    """Two problems whose gradients are known, and noise of known variance in each coordinate of each rollout."""
    true_PD = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    spread_P, half = np.array([2.0, 0.5]), 4
    rng = np.random.default_rng(0)

    def estimate() -> np.ndarray:
        return true_PD + rng.normal(size=true_PD.shape) * spread_P[:, None] / half**0.5

    found = [code.products(estimate(), estimate(), half) for _ in range(20_000)]
    goal = true_PD.mean(0)
    assert np.mean([each.own_P for each in found], 0) == pytest.approx((true_PD**2).sum(1), abs=0.06)
    assert np.mean([each.towards_P for each in found], 0) == pytest.approx(true_PD @ goal, abs=0.06)
    assert np.mean([each.noise_P for each in found], 0) == pytest.approx(3 * spread_P**2, abs=0.2)
    assert np.mean([each.goal for each in found]) == pytest.approx(goal @ goal, abs=0.03)


def test_the_metric_of_adam_makes_all_coordinates_alike() -> None:
    """A coordinate that is a hundred times larger everywhere counts a hundred times more, not ten thousand times."""
    one_PD, two_PD = (np.array([[1.0, 100.0, 0.0], [-1.0, 100.0, 0.0]]) for _ in range(2))
    code.scaled_as_adam(one_PD, two_PD)
    ratio = abs(one_PD[0, 1] / one_PD[0, 0]) ** 2
    assert ratio == pytest.approx(100.0)
    assert (one_PD[:, 2] == 0).all()
