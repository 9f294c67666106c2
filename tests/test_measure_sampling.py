"""avg@n and the best of k against counting every subset, and against pass@k."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure import bootstrap_mean, pass_at_k
from outrider.measure.sampling import avg_at_n, best_of_k

SCORES = st.lists(st.sampled_from([-2.0, 0.0, 0.5, 3.0]), min_size=1, max_size=7)  # few values: ties are common


def best_by_counting(scores, values, k):
    """Mean over all k-subsets of the mean value of those that share the highest score."""
    picked = []
    for subset in combinations(range(len(scores)), k):
        top = max(scores[i] for i in subset)
        picked.append(np.mean([values[i] for i in subset if scores[i] == top]))
    return np.mean(picked)


@given(SCORES, st.data())
@settings(max_examples=40, deadline=None)
def test_equals_enumeration_of_all_subsets(scores, data):
    values = data.draw(st.lists(st.floats(-5, 5), min_size=len(scores), max_size=len(scores)))
    for k in range(1, len(scores) + 1):
        assert best_of_k(scores, k) == pytest.approx(best_by_counting(scores, scores, k), abs=1e-12)
        assert best_of_k(scores, k, values) == pytest.approx(best_by_counting(scores, values, k), abs=1e-12)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
@settings(max_examples=40)
def test_of_successes_it_is_pass_at_k(problem):
    n, c, k = problem
    assert best_of_k(np.arange(n) < c, k) == pytest.approx(float(pass_at_k(n, c, k)), abs=1e-12)


def test_best_of_one_is_the_mean_and_of_all_the_maximum():
    scores = np.random.default_rng(0).normal(size=300)
    assert best_of_k(scores, 1) == pytest.approx(scores.mean())
    assert best_of_k(scores, 300) == scores.max()
    assert best_of_k(scores, 300, values_G=-scores) == -scores.max()


def test_the_maximum_of_uniform_numbers_is_unbiased():
    """The best of 4 uniform numbers is 4/5 in expectation, however many were drawn."""
    drawn = np.random.default_rng(1).random((1000, 9))
    interval = bootstrap_mean([best_of_k(row, 4) for row in drawn], level=0.999)
    assert interval.low < 0.8 < interval.high
    assert interval.high - interval.low < 0.05


def test_responses_without_a_score_are_left_out_and_never_counted_as_worst():
    scores = [1.0, np.nan, 3.0, np.nan]
    assert best_of_k(scores, 2) == 3.0
    assert best_of_k(scores, 1) == 2.0
    assert np.isnan(best_of_k(scores, 3))  # two scores say nothing of the best of three
    assert np.isnan(best_of_k([], 1))
    assert np.isnan(best_of_k([np.nan], 1))


def test_a_value_counts_if_it_can_be_chosen():
    assert best_of_k([1.0, 2.0, 3.0], 2, values_G=[np.nan, 0, 1]) == pytest.approx(2 / 3)  # the lowest never wins
    assert np.isnan(best_of_k([1.0, 2.0, 3.0], 1, values_G=[np.nan, 0, 1]))
    assert best_of_k([-np.inf, 0.0, np.inf], 2, values_G=[9, 3, 6]) == pytest.approx((3 + 6 + 6) / 3)
    assert best_of_k([-np.inf, 0.0, 1.0], 2) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("scores", "k", "values"), [([1.0], 0, None), ([1.0], 1, [1.0, 2.0]), ([[1.0]], 1, None)])
def test_what_is_no_sample_of_one_problem_is_refused(scores, k, values):
    with pytest.raises(ValueError, match=r"k >= 1|of one problem"):
        best_of_k(scores, k, values)


def test_avg_at_n_weighs_problems_alike():
    values = avg_at_n(n=[1, 9, 0], c=[1, 0, 0])
    assert values.tolist()[:2] == [1.0, 0.0]
    assert np.isnan(values[2])
    assert bootstrap_mean(values)[0::3] == (0.5, 2)  # not 1/10, and the empty problem is not counted
