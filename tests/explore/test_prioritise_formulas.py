"""XRPO's planner: its formulas by hand, and whole numbers in proportion."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.explore.apportion import apportion
from outrider.explore.prioritise import exploration_bonus, reduction

# Student's t, two-sided 95 %, as printed in every table: t[degrees of freedom]
T = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 7: 2.36462, 8: 2.30600}


def counts(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# Formulas


def test_reduction_by_the_tables_of_t():
    s_4, s_8 = math.sqrt(1 / 3), math.sqrt(8 / 28 * 3 * 5 / 8 / 2)  # k (n - k) / (n (n - 1)): 4/12 and 15/56
    assert s_8 == pytest.approx(math.sqrt(15 / 56))
    by_hand = [
        s_4 * (T[3] / 2 - T[4] / math.sqrt(5)),
        s_8 * (T[7] / math.sqrt(8) - T[8] / 3),
        math.sqrt(1 / 2) * (T[1] / math.sqrt(2) - T[2] / math.sqrt(3)),
    ]
    assert reduction(counts(2, 3, 1), counts(4, 8, 2), 0.95) == pytest.approx(by_hand, abs=1e-4)
    assert by_hand[0] == pytest.approx(0.202, abs=5e-4)


def test_alpha_read_as_a_quantile_makes_the_uncertainty_void():
    """0.525 is the quantile of a two-sided level of 0.05: a fortieth of the bonus, and the reason for the decision."""
    assert reduction(counts(2), counts(4), 0.05) == pytest.approx([0.0024], abs=5e-5)
    assert exploration_bonus(counts(4, 4), 32, 0.1) == pytest.approx([0.1 * math.sqrt(math.log(33) / 4)] * 2)
    assert exploration_bonus(counts(4), 32, 0.1)[0] == pytest.approx(0.094, abs=6e-4)
    assert exploration_bonus(counts(4), 128, 0.1)[0] == pytest.approx(0.110, abs=5e-4)


def test_one_rollout_counts_as_two_with_a_deviation_of_one_half():
    by_hand = 0.5 * (T[1] / math.sqrt(2) - T[2] / math.sqrt(3))
    assert reduction(counts(0, 1, 0), counts(1, 1, 0), 0.95) == pytest.approx([by_hand] * 3, abs=1e-4)


@given(st.integers(2, 64), st.data(), st.floats(0.01, 0.99))
def test_reduction_is_even_in_success_and_failure_and_zero_without_spread(n, data, confidence):
    k = data.draw(st.integers(0, n))
    one, other = reduction(counts(k, n - k), counts(n, n), confidence)
    assert one == other
    assert (one == 0) == (k in (0, n))
    assert one >= 0


# Apportioning

weights = st.lists(st.floats(0, 1e6), max_size=20)


@given(weights, st.integers(0, 5000))
def test_apportioning_spends_the_total_and_stays_within_one_of_the_quota(weights_P, total):
    given_P = apportion(weights_P, total, list(range(len(weights_P))))
    assert sum(given_P) == (total if weights_P else 0)
    exact_P = [Fraction(w) for w in weights_P] if any(weights_P) else [Fraction(1)] * len(weights_P)
    for got, weight in zip(given_P, exact_P, strict=True):
        assert abs(got - total * weight / sum(exact_P)) < 1 + 1e-9
        assert weight or not got


@given(weights, st.integers(0, 500), st.randoms(use_true_random=False))
def test_apportioning_permutes_with_its_weights(weights_P, total, random):
    order = list(range(len(weights_P)))
    random.shuffle(order)
    straight = apportion(weights_P, total, order)
    shuffled = apportion([weights_P[i] for i in order], total, [order[i] for i in order])
    assert shuffled == [straight[i] for i in order]


def test_remainders_by_hand():
    # 10 * (0.5, 0.3, 0.2) / 1.0 are whole; 7 gives 3.5, 2.1, 1.4: one is left and goes to .5
    assert apportion([0.5, 0.3, 0.2], 10, [0, 0, 0]) == [5, 3, 2]
    assert apportion([0.5, 0.3, 0.2], 7, [0, 0, 0]) == [4, 2, 1]
    assert apportion([1.0, 1.0, 1.0], 4, [2, 1, 0]) == [1, 1, 2]
    assert apportion([0.0, 0.0, 0.0], 5, [(1, "b"), (0, "c"), (1, "a")]) == [1, 2, 2]
    for broken in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            apportion([1.0, broken], 3, [0, 0])
