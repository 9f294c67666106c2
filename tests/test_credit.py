"""The rules that every baseline keeps, as one matrix, and hand numbers for each.

A new baseline joins by one line in ``CASES``; a baseline without a line fails ``test_every_baseline_is_in_the_matrix``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.credit import BASELINES, Baseline, GroupMean, Members, Shaper, advantages
from outrider.credit.members import Floats
from outrider.credit.siblings_mean import SiblingsMean
from outrider.credit.tree_grpo import TreeGrpo
from outrider.credit.tree_values import TreeValues


class Case(NamedTuple):
    """``scale``: the power of s in A(s r) = s^power A(r); None where no such law holds (an epsilon in the way)."""

    baseline: Baseline
    scale: int | None


CASES = {
    "group_mean": Case(GroupMean(), scale=None),
    "group_mean without std": Case(GroupMean(std=False), scale=1),
    "group_mean without epsilon": Case(GroupMean(epsilon=0.0), scale=0),
    "siblings_mean": Case(SiblingsMean(), scale=1),
    "siblings_mean with std": Case(SiblingsMean(std=True), scale=None),
    "tree_grpo": Case(TreeGrpo(), scale=None),
    "tree_values": Case(TreeValues(), scale=1),
    "tree_values of the released code": Case(TreeValues(variant="treerl_code"), scale=1),
}

every_baseline = pytest.mark.parametrize("case", CASES.values(), ids=CASES)

# Multiples of 1/64, and powers of two as factors: both exact, so a law that fails does not fail by rounding.
REWARDS = st.lists(st.integers(-256, 256).map(lambda i: i / 64), min_size=1, max_size=9)


def group(rewards, tokens=None) -> Members:
    rewards_G = np.asarray(rewards, dtype=np.float64)
    tokens_G = np.full(len(rewards_G), 3) if tokens is None else np.asarray(tokens)
    return Members(rewards_G, rewards_G > 0, tokens_G)


def test_every_baseline_is_in_the_matrix():
    assert {type(case.baseline) for case in CASES.values()} == set(BASELINES.values())


@every_baseline
@given(rewards=REWARDS, data=st.data())
def test_a_permutation_of_the_members_permutes_the_advantages(case, rewards, data):
    order = data.draw(st.permutations(range(len(rewards))))
    found = case.baseline.advantages(group(rewards))
    permuted = case.baseline.advantages(group([rewards[i] for i in order]))
    np.testing.assert_allclose(permuted, found[list(order)], rtol=1e-12, atol=1e-12)


@every_baseline
@given(rewards=REWARDS, shift=st.integers(-64, 64))
def test_a_constant_added_to_all_rewards_changes_nothing(case, rewards, shift):
    found = case.baseline.advantages(group(rewards))
    shifted = case.baseline.advantages(group(np.array(rewards) + shift))
    np.testing.assert_allclose(shifted, found, rtol=1e-9, atol=1e-12)


@every_baseline
@given(rewards=REWARDS, scale=st.sampled_from([2.0**-10, 0.25, 8.0, 2.0**10]))
def test_a_factor_on_all_rewards_follows_the_law_of_the_baseline(case, rewards, scale):
    found = case.baseline.advantages(group(rewards))
    scaled = case.baseline.advantages(group(np.array(rewards) * scale))
    if case.scale is None:
        assert (np.sign(scaled) == np.sign(found)).all()
    else:
        np.testing.assert_allclose(scaled, found * scale**case.scale, rtol=1e-9, atol=1e-12 * scale)


@every_baseline
@given(rewards=REWARDS, data=st.data())
def test_lengths_decide_how_often_an_advantage_is_repeated_and_nothing_else(case, rewards, data):
    tokens = data.draw(st.lists(st.integers(1, 6), min_size=len(rewards), max_size=len(rewards)))
    per_member = case.baseline.advantages(group(rewards))
    per_token = advantages([case.baseline], group(rewards, tokens))
    assert [a.tolist() for a in per_token] == [[a] * t for a, t in zip(per_member, tokens, strict=True)]


@every_baseline
@given(reward=st.floats(-1e6, 1e6))
def test_a_group_of_one_has_nothing_to_compare_with(case, reward):
    assert case.baseline.advantages(group([reward])).tolist() == [0.0]
    assert case.baseline.advantages(group([reward, np.nan, 1.0], [3, 3, 0])).tolist() == [0.0, 0.0, 0.0]


@every_baseline
def test_an_empty_group_has_no_advantages(case):
    assert case.baseline.advantages(group([])).tolist() == []
    assert case.baseline.advantages(group([np.nan, np.nan])).tolist() == [0.0, 0.0]


@every_baseline
@given(reward=st.floats(-1e6, 1e6, width=32), size=st.integers(2, 16), kind=st.sampled_from([np.float32, np.float64]))
def test_equal_rewards_give_exactly_zero(case, reward, size, kind):
    assert (case.baseline.advantages(group(np.full(size, reward, kind))) == 0.0).all()


@every_baseline
@pytest.mark.parametrize("rewards", [[0.35] * 7, [0.1, 0.1, 0.1], [1 / 3] * 6, [1.0] * 8, [0.0] * 8])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_equal_rewards_whose_mean_rounds_give_exactly_zero(case, rewards, kind):
    """Seven times 0.35 in float32 sums to a mean one ulp away: residue over epsilon was a gradient out of nothing."""
    assert (case.baseline.advantages(group(np.array(rewards, kind))) == 0.0).all()


@every_baseline
@pytest.mark.parametrize("rewards", [[1.00000, 1.00001, 2.00000, 2.00001], [1.00000, 1.00001], [0.35] * 7 + [0.36]])
def test_small_differences_are_signal(case, rewards):
    """A difference of 1e-5 has the sign and the order of the rewards; it is neither flattened nor blown up."""
    found = case.baseline.advantages(group(rewards))
    assert np.isfinite(found).all()
    assert (np.sign(found) == np.sign(np.array(rewards) - np.mean(rewards))).all()
    assert (np.diff(found)[np.diff(rewards) > 0] > 0).all()
    assert np.abs(found).max() < len(rewards)


@every_baseline
@given(rewards=REWARDS, data=st.data())
def test_a_member_that_is_not_valid_changes_no_sibling_and_gets_zero(case, rewards, data):
    """Unscorable, or without a token to train, whatever its reward: as if it had never been there."""
    alone = case.baseline.advantages(group(rewards))
    outsider = data.draw(st.sampled_from([(np.nan, 3), (np.nan, 0), (100.0, 0), (rewards[0], 0)]))
    at = data.draw(st.integers(0, len(rewards)))
    reward, length = outsider
    mixed = group([*rewards[:at], reward, *rewards[at:]], [*[3] * at, length, *[3] * (len(rewards) - at)])
    found = case.baseline.advantages(mixed)
    assert found[at] == 0.0
    assert np.delete(found, at).tolist() == alone.tolist()


@every_baseline
@pytest.mark.parametrize("rewards", [[1, 0, 0, 0], [1, 1, 1, 0]])
def test_a_lone_dissenter_keeps_the_largest_advantage(case, rewards):
    """Leave-one-out filters once dropped such groups: three of four members see siblings that agree."""
    found = case.baseline.advantages(group(rewards))
    dissenter = rewards.index(1) if sum(rewards) == 1 else rewards.index(0)
    assert np.abs(found).argmax() == dissenter
    assert np.sign(found).tolist() == [1 if r else -1 for r in rewards]


@every_baseline
@given(rewards=REWARDS)
def test_a_baseline_is_pure(case, rewards):
    members = group([*rewards, np.nan])
    before = members.rewards_G.copy()
    first = case.baseline.advantages(members)
    np.testing.assert_array_equal(members.rewards_G, before)
    assert first.dtype == np.float64
    assert case.baseline.advantages(members).tolist() == first.tolist()


@pytest.mark.parametrize(
    ("baseline", "rewards", "tokens", "expected"),
    [
        # mean 1/4
        (GroupMean(std=False), [1, 0, 0, 0], None, [0.75, -0.25, -0.25, -0.25]),
        # squares 9/16 + 3/16 over n - 1 = 3: variance 1/4, deviation 1/2
        (GroupMean(epsilon=0), [1, 0, 0, 0], None, [1.5, -0.5, -0.5, -0.5]),
        # the last member is masked: mean of 1, 3, 2 is 2, variance 2/2, deviation 1
        (GroupMean(std=False), [1, 3, 2, np.nan], None, [-1, 1, 0, 0]),
        (GroupMean(epsilon=0), [1, 3, 2, 0], [3, 3, 3, 0], [-1, 1, 0, 0]),
        # a gap of 1e-5: deviation 1e-5 / sqrt 2, to which epsilon adds 14 %
        (GroupMean(), [1.00000, 1.00001], None, [-5e-6 / (1e-5 / 2**0.5 + 1e-6), 5e-6 / (1e-5 / 2**0.5 + 1e-6)]),
        # seven equal and one above: mean 0.4, deviation sqrt((7 * 0.05^2 + 0.35^2) / 7) = sqrt(0.02)
        (GroupMean(epsilon=0), [0.35] * 7 + [0.75], None, [-0.05 / 0.02**0.5] * 7 + [0.35 / 0.02**0.5]),
        # one ulp apart, so that the mean rounds onto a reward: as 0, 0, 1, with mean 1/3 and deviation 1 / sqrt 3
        (GroupMean(epsilon=0), [0.35, 0.35, np.nextafter(0.35, 1)], None, [-1 / 3**0.5, -1 / 3**0.5, 2 / 3**0.5]),
    ],
)
def test_hand_numbers(baseline, rewards, tokens, expected):
    np.testing.assert_allclose(baseline.advantages(group(rewards, tokens)), expected, rtol=1e-9, atol=1e-9)


@given(st.integers(2, 64).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_the_deviation_weighs_a_lone_dissenter_up_by_root_n(problem):
    """With 0/1 rewards the factor between with and without std is sqrt((n - 1) / (n p (1 - p))), at most sqrt n."""
    n, c = problem
    rewards = [1.0] * c + [0.0] * (n - c)
    factor = GroupMean(epsilon=0).advantages(group(rewards)) / GroupMean(std=False).advantages(group(rewards))
    p = c / n
    np.testing.assert_allclose(factor, np.sqrt((n - 1) / (n * p * (1 - p))), rtol=1e-9)
    assert factor.max() <= np.sqrt(n) * (1 + 1e-9)
    if c in (1, n - 1):
        assert factor.max() == pytest.approx(np.sqrt(n))


# Chains


class PlusPosition(Shaper):
    """Adds the position of the token: shows that a shaper works per token and ragged."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a + np.arange(len(a)) for a in advantages_GT]


class TimesStep(Shaper):
    """Multiplies by the step: does not commute with the one above."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a * step for a in advantages_GT]


def test_shapers_run_in_the_order_of_the_chain():
    members = group([1, 0], tokens=[1, 3])
    plus_first = advantages([GroupMean(std=False), PlusPosition(), TimesStep()], members, step=2)
    times_first = advantages([GroupMean(std=False), TimesStep(), PlusPosition()], members, step=2)
    assert [a.tolist() for a in plus_first] == [[1.0], [-1.0, 1.0, 3.0]]
    assert [a.tolist() for a in times_first] == [[1.0], [-1.0, 0.0, 1.0]]


def test_a_member_without_tokens_has_an_empty_array():
    assert [a.tolist() for a in advantages([GroupMean()], group([1, 100, 1], [2, 0, 1]))] == [[0, 0], [], [0]]


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ([PlusPosition()], "has one baseline, and this one has 0"),
        ([GroupMean(), GroupMean()], "has one baseline, and this one has 2"),
        ([PlusPosition(), GroupMean()], "PlusPosition stands too early in its credit chain"),
    ],
)
def test_a_chain_has_one_baseline_and_everything_in_its_place(chain, message):
    with pytest.raises(ValueError, match=message):
        advantages(chain, group([1, 0]))
