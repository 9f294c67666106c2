"""The benchmark of growth: its slopes, and each of its parts at a small size."""

from __future__ import annotations

from collections import Counter

import pytest
from map_code import map_code

scale, recipes, model = (map_code(name) for name in ("scale", "_scale_recipes", "_scale_model"))


def test_a_slope_is_that_of_the_work_and_a_steep_one_is_measured_again() -> None:
    calls: Counter[int] = Counter()

    def square(size: int) -> float:
        calls[size] += 1
        return float(size**2)

    found = scale.curve((4, 16, 64), square)
    assert found == {"4": 16.0, "16": 256.0, "64": 4100.0, "slope": 2.0}
    assert set(calls.values()) == {scale.REPEATS}
    noisy = iter([1.0, 4.0, 64.0, 1.0, 4.0, 16.0])  # one slow run, which is not the part's
    assert scale.curve((1, 4, 16), lambda size: next(noisy))["slope"] == 1.0
    assert scale.named({"a": {"slope": 1.0}, "b": {"slope": 2.0}}) == {"b": "slope 2.0: reason not known"}


@pytest.mark.parametrize("name", ["grpo", "xrpo", "dars-hw", "prefix-replay"])
def test_recipes_are_measured_without_the_time_of_their_rollouts(name: str) -> None:
    assert 0 < recipes.explored(name, 4, None) < 10
    assert 0 < recipes.explored(name, 2, 64) < 10  # more than DARS' n_max
    assert 0 < recipes.pool(name, 128) < 10


@pytest.mark.parametrize("part", ["metrics", "disk", "gather"])
def test_parts_of_a_step_are_measured(part: str) -> None:
    assert recipes.recorded(part, 2) > 0


@pytest.mark.parametrize("part", ["open", "resume"])
def test_runs_on_disk_are_measured(part: str) -> None:
    assert recipes.reopened(part, 2) > 0


def test_parts_with_a_model_are_measured() -> None:
    assert min(model.head(64), model.learning(32), model.sampling(32)) > 0
