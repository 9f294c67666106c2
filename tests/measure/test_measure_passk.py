"""pass@k and pass^k against counting every subset, and against exact fractions."""

from fractions import Fraction
from itertools import combinations, pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import pass_at_k, pass_power_k, powers_of_two

OUTCOMES = st.lists(st.booleans(), min_size=1, max_size=8)


def counts(most):
    return st.integers(1, most).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(OUTCOMES)
def test_equals_enumeration_of_all_subsets(outcomes):
    n, c = len(outcomes), sum(outcomes)
    for k in range(1, n + 1):
        subsets = list(combinations(outcomes, k))
        assert pass_at_k(n, c, k) == pytest.approx(np.mean([any(s) for s in subsets]), abs=1e-14)
        assert pass_power_k(n, c, k) == pytest.approx(np.mean([all(s) for s in subsets]), abs=1e-14)


@given(counts(most=300))
def test_equals_exact_fractions_where_binomials_overflow(problem):
    n, c, k = problem
    assert pass_at_k(n, c, k) == pytest.approx(float(1 - Fraction(comb(n - c, k), comb(n, k))), abs=1e-12)
    assert pass_power_k(n, c, k) == pytest.approx(float(Fraction(comb(c, k), comb(n, k))), abs=1e-12)


@given(counts(most=64))
@settings(deadline=None)
def test_never_falls_with_k_or_c_and_hits_its_ends_exactly(problem):
    n, c, k = problem
    by_c = pass_at_k(n, np.arange(n + 1), k)
    assert (np.diff(by_c) >= 0).all()
    assert by_c[0] == 0.0
    assert (by_c[n - k + 1 :] == 1.0).all()  # fewer than k failures: every subset holds a success
    assert not np.signbit(pass_power_k(n, np.arange(n + 1), k)).any()  # no -0.0 where c < k
    by_k = np.array([pass_at_k(n, c, j) for j in range(1, n + 1)])
    assert (np.diff(by_k) >= 0).all()


@given(st.integers(1, 12), st.floats(0, 1), st.data())
def test_is_unbiased(n, p, data):
    """Averaged over c ~ Binomial(n, p) the estimator gives 1 - (1 - p)^k, whatever n >= k."""
    k = data.draw(st.integers(1, n))
    c = np.arange(n + 1)
    weights = np.array([comb(n, int(x)) * p**x * (1 - p) ** (n - x) for x in c])
    assert weights @ pass_at_k(n, c, k) == pytest.approx(1 - (1 - p) ** k, abs=1e-12)
    assert weights @ pass_power_k(n, c, k) == pytest.approx(p**k, abs=1e-12)


def test_one_success_among_n_is_found_by_n_samples():
    """Resampling with replacement would report 1 - (3/4)^4 = 0.684 for the first of these."""
    for n in (4, 64, 1024):
        assert pass_at_k(n, 1, n) == 1.0


def test_one_success_among_many_is_k_over_n():
    """With c = 1 the subset either holds it (probability k/n) or not; C(10000, 5000) has 3008 digits."""
    assert pass_at_k(10_000, 1, 5_000) == pytest.approx(0.5, rel=1e-12)


def test_too_few_samples_is_unknown_and_changes_no_neighbour():
    values = pass_at_k(n=[4, 3, 0, 4], c=[1, 3, 0, 0], k=4)
    assert values.tolist()[0] == 1.0
    assert np.isnan(values[1])  # all three succeeded, and still nothing is known about four
    assert np.isnan(values[2])
    assert values[3] == 0.0
    assert np.isnan(pass_power_k([3], [3], 4)).all()


@given(st.lists(st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1))
def test_ragged_problems_are_independent(problems):
    n, c = map(list, zip(*problems, strict=True))
    together = pass_at_k(n, c, 7)
    alone = [float(pass_at_k(*problem, 7)) for problem in problems]
    np.testing.assert_array_equal(together, alone)


def test_pass_at_1_is_the_mean_success():
    n = np.array([3, 7, 64])
    c = np.array([1, 5, 20])
    np.testing.assert_allclose(pass_at_k(n, c, 1), c / n, rtol=1e-14)
    np.testing.assert_allclose(pass_power_k(n, c, 1), c / n, rtol=1e-14)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, np.nan, 1)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match=r"k >= 1|successes must be from 0 to samples"):
        pass_at_k(n, c, k)


@given(st.integers(1, 5000))
def test_reported_k_double_and_end_at_n(n):
    ks = powers_of_two(n)
    assert ks[0] == 1
    assert ks[-1] == n
    assert all(b == 2 * a for a, b in pairwise(ks[:-1]))
    assert ks == tuple(sorted(set(ks)))
    assert len(ks) < 2 or ks[-2] * 2 >= n  # no power of two below n is excluded
