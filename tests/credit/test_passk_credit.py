"""Baselines for pass@k, against the subsets themselves and against the gradient itself.

The rules that they share with every baseline are in ``test_credit_matrix.py``.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bandit import BINARY, GRADED, RARE
from outrider.credit import GroupMean, LeaveOneOut, Members
from outrider.credit.passk import PassK

VARIANTS = ["training", "pkpo", "pkpo_centred"]

REWARDS = st.lists(st.integers(-8, 8).map(lambda i: i / 4), min_size=2, max_size=8) | st.lists(
    st.sampled_from([0.0, 1.0]), min_size=2, max_size=8
)


def group(rewards, tokens=None) -> Members:
    rewards_G = np.array(rewards, np.float64)
    return Members(rewards_G, rewards_G > 0, np.full(len(rewards_G), 3) if tokens is None else np.array(tokens))


def successes(c: int, n: int) -> Members:
    return group([1.0] * c + [0.0] * (n - c))


# The definitions, subset by subset


def by_subsets(rewards: list[float], k: int, variant: str, epsilon: float = 0.0) -> list[float]:
    n = len(rewards)
    subsets = list(itertools.combinations(range(n), k))
    best = [max(rewards[j] for j in s) for s in subsets]
    found = []
    for i in range(n):
        mine = [(s, b) for s, b in zip(subsets, best, strict=True) if i in s]
        if variant == "pkpo":
            without = [max(rewards[j] for j in s if j != i) for s, _ in mine]
            found.append(k * np.mean([b - w for (_, b), w in zip(mine, without, strict=True)]))
        else:
            found.append(np.mean([b for _, b in mine]) - np.mean(best))
    if variant == "pkpo_centred":
        return [k * a for a in found]
    if variant == "training":
        spread = np.std(best) + epsilon
        return [a / spread if len(set(best)) > 1 else 0.0 for a in found]
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@given(rewards=REWARDS, data=st.data())
def test_advantages_are_the_definition_over_all_subsets(variant, rewards, data) -> None:
    k = data.draw(st.integers(2, len(rewards)))
    found = PassK(k=k, variant=variant, epsilon=0).advantages(group(rewards))
    np.testing.assert_allclose(found, by_subsets(rewards, k, variant), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1])
def test_epsilon_is_added_to_the_deviation(epsilon) -> None:
    rewards = [0.0, 1.0, 0.0, 0.0, 0.5]
    found = PassK(k=2, epsilon=epsilon).advantages(group(rewards))
    np.testing.assert_allclose(found, by_subsets(rewards, 2, "training", epsilon), rtol=1e-12)


@given(n=st.integers(2, 40), data=st.data())
def test_training_has_the_published_form_for_rewards_of_0_and_1(n, data) -> None:
    """Pass@k Training, Eqs. 11, 12, 14 and 15."""
    k, c = data.draw(st.integers(1, n)), data.draw(st.integers(0, n))
    solved = 1 - Fraction(comb(n - c, k), comb(n, k))  # exact: near 1 the failures' number is a small difference
    found = PassK(k=k, epsilon=0).advantages(successes(c, n))
    if c > 0 and k <= n - c:
        sigma = float(solved * (1 - solved)) ** 0.5
        success = float(1 - solved) / sigma
        failure = float(1 - solved - Fraction(comb(n - c - 1, k - 1), comb(n - 1, k - 1))) / sigma
        np.testing.assert_allclose(found, [success] * c + [failure] * (n - c), rtol=1e-9, atol=1e-12)
    else:
        assert (found == 0).all()


@pytest.mark.parametrize(
    ("component", "members", "expected"),
    [
        # One of four, pairs: three of six hold the success, M = 1/2, deviation 1/2; one of a failure's three does
        (PassK(k=2, epsilon=0), successes(1, 4), [1, -1 / 3, -1 / 3, -1 / 3]),
        # All three pairs of the success are solved by it alone: 2 * 1
        (PassK(k=2, variant="pkpo"), successes(1, 4), [2, 0, 0, 0]),
        # Two of four: of a success's three pairs, two are not solved without it: 2 * 2/3
        (PassK(k=2, variant="pkpo"), successes(2, 4), [4 / 3, 4 / 3, 0, 0]),
        # k = n, one subset: only the best response matters, by its lead over the second: 3 * (1 - 1/4)
        (PassK(k=3, variant="pkpo"), group([0.0, 1.0, 0.25]), [0, 2.25, 0]),
        # and there is nothing to compare the subset with
        (PassK(k=3), group([0.0, 1.0, 0.25]), [0, 0, 0]),
        (PassK(k=3, variant="pkpo_centred"), group([0.0, 1.0, 0.25]), [0, 0, 0]),
        # the invalid ones leave two of four for pairs, as above
        (PassK(k=2, variant="pkpo"), group([1, np.nan, 1, 0, 9, 0], [3, 3, 3, 3, 0, 3]), [4 / 3, 0, 4 / 3, 0, 0, 0]),
    ],
)
def test_hand_numbers(component, members, expected) -> None:
    np.testing.assert_allclose(component.advantages(members), expected, rtol=1e-12, atol=1e-12)


def test_two_of_four_in_pairs_is_a_twelfth_as_a_sum() -> None:
    """PKPO's s (Eq. 19) is 1/2 for a success and 1/3 for a failure, 5/12 in the mean: 1/12 above, 1/12 below. That is
    a sum over members, and ours a mean over four."""
    found = PassK(k=2, variant="pkpo_centred").advantages(successes(2, 4))
    np.testing.assert_allclose(found / 4, [1 / 12, 1 / 12, -1 / 12, -1 / 12], rtol=1e-12)


# What is estimated, over every group that a policy can draw


@pytest.mark.parametrize("bandit", [BINARY, RARE, GRADED], ids=["binary", "rare", "graded"])
@pytest.mark.parametrize(("n", "k"), [(n, k) for n in (2, 3, 4) for k in range(1, n + 1)])
def test_the_mean_over_all_groups_is_the_gradient_of_the_best_of_k(bandit, n, k) -> None:
    gradient = bandit.gradient(bandit.best_of(k))
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(bandit.mean(PassK(k=k, variant="pkpo"), n), gradient, rtol=1e-9, atol=1e-13)
    centred = bandit.mean(PassK(k=k, variant="pkpo_centred"), n)
    np.testing.assert_allclose(centred, (1 - k / n) * gradient, rtol=1e-9, atol=1e-13)


def test_the_oracle_is_pass_at_k() -> None:
    """The gradient is compared with that of 1 - (1 - p)^k, which is k (1 - p)^(k-1) times that of p."""
    p = float(BINARY.expected(BINARY.probabilities()))
    for k in (1, 2, 5):
        expected = k * (1 - p) ** (k - 1) * BINARY.gradient(BINARY.expected)
        np.testing.assert_allclose(BINARY.gradient(BINARY.best_of(k)), expected, rtol=1e-12)


# Laws and limits


@given(rewards=REWARDS)
def test_one_of_one_is_the_ordinary_baseline(rewards) -> None:
    members = group(rewards)
    deviation = np.std(rewards)  # of the population, where GroupMean has n - 1
    centred = GroupMean(std=False).advantages(members)
    np.testing.assert_allclose(PassK(k=1, variant="pkpo_centred").advantages(members), centred, atol=1e-12)
    np.testing.assert_allclose(
        PassK(k=1, variant="pkpo").advantages(members), LeaveOneOut().advantages(members), atol=1e-12
    )
    if deviation:
        found = PassK(k=1, epsilon=0).advantages(members)
        np.testing.assert_allclose(found, centred / deviation, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@given(rewards=REWARDS, k=st.integers(1, 10), shift=st.integers(-8, 8))
def test_equal_rewards_fare_alike_and_better_ones_no_worse(variant, rewards, k, shift) -> None:
    found = PassK(k=k, variant=variant).advantages(group(np.array(rewards) + shift))
    for (r, a), (s, b) in itertools.combinations(zip(rewards, found.tolist(), strict=True), 2):
        assert a == b if r == s else (a >= b if r > s else a <= b)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("rewards", [[0.1] * 3, [0.35] * 7, [1 / 3] * 6, [1.0], []])
def test_no_difference_is_exactly_nothing(variant, k, rewards) -> None:
    assert (PassK(k=k, variant=variant, epsilon=0).advantages(group(rewards)) == 0).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_group_smaller_than_k_gets_nothing_also_where_invalid_members_make_it_so(variant) -> None:
    component = PassK(k=4, variant=variant)
    assert (component.advantages(successes(1, 3)) == 0).all()
    assert (component.advantages(group([1, 0, 0, np.nan, 1], [3, 3, 3, 3, 0])) == 0).all()
    assert PassK(k=3, variant="pkpo").advantages(successes(1, 3)).any()


def test_a_problem_that_every_subset_solves_counts_as_solved_in_training_alone() -> None:
    """Three of five, k = 3: every subset holds a success. Some hold one alone, and would be lost without it."""
    assert (PassK(k=3, epsilon=0).advantages(successes(3, 5)) == 0).all()
    assert (PassK(k=3, variant="pkpo").advantages(successes(3, 5))[:3] > 0).all()
    assert (PassK(k=2).advantages(successes(3, 5)) != 0).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_large_groups_overflow_nothing(variant) -> None:
    """Binomials beyond any float: C(1100, 550) has 330 digits."""
    found = PassK(k=550, variant=variant).advantages(successes(1, 1100))
    assert np.isfinite(found).all()
    assert found[0] > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_larger_k_the_harder_the_problem_that_is_told_most(variant) -> None:
    """The sum of |A| over a group of 16: of all numbers of successes, 8 for k = 1, then fewer and fewer."""

    def loudest(k: int) -> int:
        return max(range(17), key=lambda c: np.abs(PassK(k=k, variant=variant).advantages(successes(c, 16))).sum())

    assert loudest(1) == 8
    assert loudest(1) > loudest(4) > loudest(8) >= 1


def test_options_have_ranges() -> None:
    for wrong in ({"k": 0}, {"epsilon": -1}, {"variant": "pkp"}):
        with pytest.raises(ValidationError):
            PassK(**wrong)
