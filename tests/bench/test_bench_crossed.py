"""Intervals over seeds and problems, against definitions written out, textbook cases and simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import t, ttest_1samp

from outrider.bench.crossed import Estimate, difference, estimate
from outrider.bench.results import Measured

VALUES = st.floats(-1, 1).map(lambda x: round(x, 6))


def complete(values_SP: np.ndarray) -> Measured:
    return Measured(values_SP, np.ones_like(values_SP))


def tables(most: int = 5) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(1, most), st.integers(1, most))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=VALUES))


def by_definition(z: list[list[float]]) -> tuple[float, float]:
    """Variance of the mean and degrees of freedom of the two-way layout, one cell at a time."""
    seeds, problems = len(z), len(z[0])
    mean = sum(map(sum, z)) / (seeds * problems)
    row = [sum(line) / problems for line in z]
    column = [sum(line[p] for line in z) / seeds for p in range(problems)]
    of_seeds = sum(problems * (r - mean) ** 2 for r in row) / (seeds - 1)
    of_problems = sum(seeds * (c - mean) ** 2 for c in column) / (problems - 1)
    rest = sum((z[s][p] - row[s] - column[p] + mean) ** 2 for s in range(seeds) for p in range(problems))
    rest /= (seeds - 1) * (problems - 1)
    # components of variance from expected mean squares, none below 0
    seed, problem = max(0.0, (of_seeds - rest) / problems), max(0.0, (of_problems - rest) / seeds)
    variance = seed / seeds + problem / problems + rest / (seeds * problems)
    parts = [(rest + problems * seed, seeds - 1), (rest + seeds * problem, problems - 1)]
    parts.append((rest, (seeds - 1) * (problems - 1)))
    spread = sum((square / (seeds * problems)) ** 2 / freedom for square, freedom in parts)
    return variance, variance**2 / spread if spread else 1.0


@given(tables().filter(lambda z: min(z.shape) > 1))
def test_the_interval_is_that_of_the_two_way_layout(z: np.ndarray) -> None:
    found = estimate(complete(z))
    variance, freedom = by_definition(z.tolist())
    half = t.ppf(0.975, freedom) * math.sqrt(variance)
    assert found.value == pytest.approx(z.mean(), abs=1e-12)
    assert (found.seeds, found.problems) == z.shape
    assert found.high - found.value == pytest.approx(half, rel=1e-6, abs=1e-7)
    assert found.value - found.low == pytest.approx(half, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1)])
def test_one_seed_or_one_column_is_students_interval(shape: tuple[int, int]) -> None:
    values = np.array([0.2, 0.4, 0.1, 0.9, 0.5, 0.5])
    found = estimate(complete(values.reshape(shape)))
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert found == pytest.approx((values.mean(), low, high, *shape, values.std(ddof=1) / math.sqrt(6)))


def test_what_has_no_interval() -> None:
    alone = estimate(complete(np.array([[0.3]])))
    assert alone.value == 0.3
    assert math.isnan(alone.low)
    assert not alone.excludes_zero
    nothing = estimate(Measured(np.zeros((2, 3)), np.zeros((2, 3))))
    assert math.isnan(nothing.value)
    assert (nothing.seeds, nothing.problems) == (0, 0)
    assert estimate(complete(np.full((3, 4), 0.5))) == Estimate(0.5, 0.5, 0.5, 3, 4, 0.0)


@given(tables(), st.randoms(use_true_random=False))
def test_neither_seeds_nor_problems_have_an_order(z: np.ndarray, random) -> None:
    rows, columns = list(range(z.shape[0])), list(range(z.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    one, other = (estimate(complete(part)) for part in (z, z[rows][:, columns]))
    assert one[:3] == pytest.approx(other[:3], nan_ok=True, abs=1e-7)


@given(tables(), VALUES)
def test_a_shift_that_all_problems_share_is_no_spread_of_a_difference(z: np.ndarray, shift: float) -> None:
    """Hard problems are hard for both: pairing takes their spread out, all of it here."""
    found = difference(complete(z), complete(z + shift))
    assert found.value == pytest.approx(shift, abs=1e-12)
    if z.size > 1:
        assert found.high - found.low == pytest.approx(0, abs=1e-7)


@given(tables(), st.data())
def test_a_difference_is_the_mean_of_differences_where_both_are_known(z: np.ndarray, data: st.DataObject) -> None:
    other = data.draw(arrays(np.float64, z.shape, elements=VALUES))
    known = data.draw(arrays(np.bool_, (2, *z.shape)))
    found = difference(Measured(z * known[0], known[0] * 1.0), Measured(other * known[1], known[1] * 1.0))
    both = known[0] & known[1]
    rows = [(other - z)[s][both[s]].mean() for s in range(len(z)) if both[s].any()]
    if not rows:
        assert math.isnan(found.value)
    else:
        assert found.value == pytest.approx(np.mean(rows), abs=1e-9)
        assert found.seeds == len(rows)
        assert found.problems == both.any(axis=0).sum()


def test_sides_that_do_not_agree_are_a_bug() -> None:
    with pytest.raises(ValueError, match="same seeds and problems"):
        difference(complete(np.zeros((2, 3))), complete(np.zeros((1, 3))))


def test_a_ratio_is_per_token_and_its_interval_that_of_the_delta_method() -> None:
    totals, counts = np.array([[3.0, 8.0, 1.0, 9.0]]), np.array([[10.0, 20.0, 5.0, 40.0]])
    found = estimate(Measured(totals, counts))
    ratio = 21 / 75  # not the mean of the four ratios, .3313
    deviations = (totals - ratio * counts)[0] / counts.mean()
    error = math.sqrt(np.sum(deviations**2) / 3 / 4)
    half = t.ppf(0.975, 3) * error
    assert found == pytest.approx((ratio, ratio - half, ratio + half, 1, 4, error))


@pytest.mark.parametrize(("seed", "problem", "both"), [(0.006, 0.10, 0.15), (0.015, 0.15, 0.35), (0.02, 0.05, 0.05)])
def test_nineteen_of_twenty_intervals_cover_the_truth(seed: float, problem: float, both: float) -> None:
    """Spreads as measured for pass@1 and pass@64 (paired), and one in which the seeds are nearly all of it.

    5 seeds, 300 problems. Resampling both factors, the alternative, covers .88 of the third and .985 of the others.
    """
    random, hits, trials = np.random.default_rng(1), 0, 2000
    for _ in range(trials):
        z = seed * random.standard_normal((5, 1)) + problem * random.standard_normal((1, 300))
        found = estimate(complete(z + both * random.standard_normal((5, 300))))
        hits += found.low <= 0 <= found.high
    assert 0.93 <= hits / trials <= 0.985
