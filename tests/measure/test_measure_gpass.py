"""G-Pass@k against counting every subset, against exact fractions, and at its two ends."""

from fractions import Fraction
from itertools import combinations
from math import ceil, comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import g_pass_at_k, mg_pass_at_k, pass_at_k, pass_power_k

OUTCOMES = st.lists(st.booleans(), min_size=1, max_size=8)


def counts(most):
    return st.integers(1, most).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


def needed(k, i):
    """A tau of which exactly ``i`` of ``k`` are the next whole number."""
    return (i - 0.5) / k


@given(OUTCOMES)
def test_equals_enumeration_of_all_subsets(outcomes):
    n, c = len(outcomes), sum(outcomes)
    for k in range(1, n + 1):
        subsets = [sum(subset) for subset in combinations(outcomes, k)]
        for i in range(1, k + 1):
            expected = np.mean([successes >= i for successes in subsets])
            assert g_pass_at_k(n, c, k, i / k) == pytest.approx(expected, abs=1e-14)
            assert g_pass_at_k(n, c, k, needed(k, i)) == pytest.approx(expected, abs=1e-14)


@given(OUTCOMES)
def test_the_mean_over_tau_equals_numeric_integration_over_all_subsets(outcomes):
    n, c = len(outcomes), sum(outcomes)
    taus = [Fraction(1, 2) + Fraction(2 * i + 1, 4 * 840) for i in range(840)]  # midpoints; 840 has all k up to 8
    for k in range(1, n + 1):
        subsets = [sum(subset) for subset in combinations(outcomes, k)]
        share = [np.mean([s >= i for s in subsets]) for i in range(k + 1)]
        assert mg_pass_at_k(n, c, k) == pytest.approx(np.mean([share[ceil(tau * k)] for tau in taus]), abs=1e-12)


@given(counts(most=48).filter(lambda p: p[2] % 2 == 0))
@settings(deadline=None)
def test_the_mean_over_tau_is_the_papers_sum_for_even_k(problem):
    n, c, k = problem
    total = sum(float(g_pass_at_k(n, c, k, i / k)) for i in range(k // 2 + 1, k + 1))
    assert mg_pass_at_k(n, c, k) == pytest.approx(2 / k * total, abs=1e-12)


@given(counts(most=200), st.data())
@settings(deadline=None)
def test_equals_exact_fractions_where_binomials_overflow(problem, data):
    n, c, k = problem
    i = data.draw(st.integers(1, k))
    hits = sum(comb(c, j) * comb(n - c, k - j) for j in range(i, min(c, k) + 1))
    assert g_pass_at_k(n, c, k, i / k) == pytest.approx(float(Fraction(hits, comb(n, k))), abs=1e-12)


@given(counts(most=100))
@settings(deadline=None)
def test_its_ends_are_pass_at_k_and_pass_power_k_and_it_never_rises_with_tau(problem):
    n, c, k = problem
    assert g_pass_at_k(n, c, k, 1e-6) == pytest.approx(pass_at_k(n, c, k), abs=1e-12)
    assert g_pass_at_k(n, c, k, 1.0) == pytest.approx(pass_power_k(n, c, k), abs=1e-12)
    by_tau = [float(g_pass_at_k(n, c, k, i / k)) for i in range(1, k + 1)]
    assert (np.diff(by_tau) <= 0).all()
    mean = float(mg_pass_at_k(n, c, k))
    assert by_tau[-1] - 1e-12 <= mean <= by_tau[0] + 1e-12
    assert mg_pass_at_k(n, c, 1) == pytest.approx(c / n)


@given(st.integers(1, 12), st.floats(0, 1), st.data())
@settings(deadline=None)
def test_is_unbiased(n, p, data):
    """Averaged over c ~ Binomial(n, p) it is the chance that i of k new samples succeed, whatever n >= k."""
    k = data.draw(st.integers(1, n))
    i = data.draw(st.integers(1, k))
    c = np.arange(n + 1)
    weights = np.array([comb(n, int(x)) * p**x * (1 - p) ** (n - x) for x in c])
    new = sum(comb(k, j) * p**j * (1 - p) ** (k - j) for j in range(i, k + 1))
    assert weights @ g_pass_at_k(n, c, k, i / k) == pytest.approx(new, abs=1e-12)


def test_too_few_samples_say_nothing_and_problems_may_differ_in_number():
    found = g_pass_at_k([3, 4, 9], [3, 4, 0], 4, 0.5)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [1.0, 0.0]
    assert np.isnan(mg_pass_at_k([3, 4], [3, 4], 4)).tolist() == [True, False]
    assert g_pass_at_k(np.zeros(0), np.zeros(0), 2, 0.5).shape == (0,)


@pytest.mark.parametrize("k", range(1, 130))
def test_a_share_of_k_that_floating_point_puts_above_a_whole_number_is_that_number(k):
    """0.7 * 10 is 7.000000000000001, which would ask for 8."""
    for i in range(1, k + 1):
        exact = g_pass_at_k(130, 65, k, needed(k, i))
        for percent in {round(100 * i / k)}:
            if percent * k == 100 * i:
                assert g_pass_at_k(130, 65, k, percent / 100) == exact


@pytest.mark.parametrize("tau", [0.0, -0.5, 1.01, float("nan")])
def test_a_share_outside_of_its_range_is_refused(tau):
    with pytest.raises(ValueError, match="0 < tau <= 1"):
        g_pass_at_k(4, 2, 2, tau)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 2), (4, -1, 2), (4, 2, 0)])
def test_impossible_counts_are_refused(n, c, k):
    for function in (lambda: g_pass_at_k(n, c, k, 0.5), lambda: mg_pass_at_k(n, c, k)):
        with pytest.raises(ValueError, match=r"successes|k >= 1"):
            function()
