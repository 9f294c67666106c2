"""Bootstrap intervals against enumerating every resample, and against what an interval promises."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from outrider.measure import bootstrap, bootstrap_difference, bootstrap_mean

VALUES = arrays(np.float64, st.integers(2, 30), elements=st.floats(-1, 1))


@pytest.mark.parametrize("chunk", [bootstrap._CHUNK, 7])
def test_ends_are_quantiles_of_all_resamples(chunk, monkeypatch):
    """Five problems have 5^5 equally likely resamples; the drawn quantiles must sit at 2.5 % and 97.5 % of those."""
    monkeypatch.setattr(bootstrap, "_CHUNK", chunk)
    values = np.array([0.0, 0.11, 0.37, 0.62, 1.0])
    means = np.array([np.mean(resample) for resample in product(values, repeat=5)])
    found = bootstrap_mean(values, resamples=20_000)
    assert found.value == pytest.approx(values.mean())
    for end, share in ((found.low, 0.025), (found.high, 0.975)):
        # 20,000 draws put the share within 0.005 (4.5 standard errors); an atom of the distribution may sit on it
        assert (means < end - 1e-9).mean() <= share + 0.005
        assert (means <= end + 1e-9).mean() >= share - 0.005


def test_width_follows_the_standard_error():
    values = np.random.default_rng(1).random(400)
    found = bootstrap_mean(values)
    expected = 2 * 1.96 * values.std() / np.sqrt(len(values))
    assert found.high - found.low == pytest.approx(expected, rel=0.08)


def test_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(2)
    hits = 0
    for seed in range(300):
        found = bootstrap_mean(generator.random(60) < 0.3, resamples=400, seed=seed)
        hits += found.low <= 0.3 <= found.high
    assert 0.90 <= hits / 300 <= 0.985  # 0.95, less the known narrowness of percentiles, plus or minus 3 sd


@given(VALUES, st.integers(0, 5))
def test_unknown_problems_are_excluded_and_counted(values, unknown):
    with_unknown = np.concatenate([np.full(unknown, np.nan), values])
    assert bootstrap_mean(with_unknown, 50) == bootstrap_mean(values, 50)
    assert bootstrap_mean(with_unknown, 50).problems == len(values)


@given(VALUES)
def test_interval_lies_within_the_data_and_repeats_with_its_seed(values):
    found = bootstrap_mean(values, 100, seed=3)
    assert values.min() - 1e-12 <= found.low <= found.high <= values.max() + 1e-12
    assert found == bootstrap_mean(values, 100, seed=3)


def test_values_of_one_problem_are_drawn_together():
    """Three problems with 1, 2 and 4 values: their 27 resamples, each the mean of all values that it holds."""
    groups = {"a": [0.1], "b": [0.9, 0.4], "c": [0.0, 0.0, 0.3, 0.2]}
    values, names = zip(*((v, name) for name, of in groups.items() for v in of), strict=True)
    means = np.array([np.mean([v for name in drawn for v in groups[name]]) for drawn in product("abc", repeat=3)])
    found = bootstrap_mean(values, resamples=20_000, problems_P=names)
    assert (found.value, found.problems) == (pytest.approx(np.mean(values)), 3)
    for end, share in ((found.low, 0.025), (found.high, 0.975)):
        assert (means < end - 1e-9).mean() <= share + 0.005
        assert (means <= end + 1e-9).mean() >= share - 0.005


@given(VALUES, st.integers(2, 5))
def test_the_same_values_again_make_no_interval_narrower(values, times):
    """A problem that comes up again and again with the same outcome says nothing new about other problems."""
    once = bootstrap_mean(values, 100)
    again = bootstrap_mean(np.tile(values, times), 100, problems_P=np.tile(np.arange(len(values)), times))
    assert again[:3] == pytest.approx(once[:3], abs=1e-12)
    assert again.problems == once.problems


def test_every_value_needs_its_problem():
    with pytest.raises(ValueError, match="3 values, 2 problems"):
        bootstrap_mean([0.0, 0.5, 1.0], problems_P=["a", "b"])
    assert bootstrap_mean([np.nan, 1.0, 0.0], problems_P=["a", "b", "b"]).problems == 1


def test_another_seed_is_another_draw():
    values = np.random.default_rng(0).random(50)
    assert bootstrap_mean(values, 100, seed=0) != bootstrap_mean(values, 100, seed=1)


@pytest.mark.parametrize(("values", "resamples"), [([], 100), ([np.nan], 100), ([0.5], 100), ([0.5, 0.7], 0)])
def test_no_interval_is_made_up(values, resamples):
    found = bootstrap_mean(values, resamples)
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    assert not found.excludes_zero
    assert found.problems == np.isfinite(values).sum()
    assert np.isnan(found.value) == (found.problems == 0)


@given(VALUES, st.floats(-1, 1))
def test_a_constant_gain_is_certain_however_varied_the_problems(values, gain):
    found = bootstrap_difference(values, values + gain, 100)
    assert found.value == pytest.approx(gain, abs=1e-12)
    assert found.high - found.low == pytest.approx(0, abs=1e-12)


def test_pairs_with_an_unknown_side_are_excluded():
    found = bootstrap_difference([0.0, np.nan, 0.5, 1.0], [1.0, 1.0, np.nan, 0.5], 0)
    assert found.problems == 2
    assert found.value == pytest.approx((1.0 - 0.5) / 2)


def test_difference_changes_sign_with_its_order():
    before, after = np.random.default_rng(0).random((2, 40))
    forth, back = bootstrap_difference(before, after), bootstrap_difference(after, before)
    assert forth.value == pytest.approx(-back.value)
    assert forth.low == pytest.approx(-back.high)


def test_different_problem_sets_are_refused():
    with pytest.raises(ValueError, match="same problems"):
        bootstrap_difference([0.0, 1.0], [0.0])
