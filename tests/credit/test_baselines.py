"""Leave-one-out, MaxRL and REINFORCE++: what is particular to each, by definition, by hand and over all outcomes.

The rules that they share with every baseline are in ``test_credit_matrix.py``; pass@k is in ``test_passk_credit.py``.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandit import BINARY, GRADED, RARE
from outrider.credit import GroupMean, LeaveOneOut, MaxRL, Members, ReinforcePP, advantages_of

REWARDS = st.lists(st.integers(-8, 8).map(lambda i: i / 4), min_size=1, max_size=7)
BITS = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=9)


def group(rewards, tokens=None, success=None) -> Members:
    rewards_G = np.array(rewards, np.float64)
    tokens_G = np.full(len(rewards_G), 3) if tokens is None else np.array(tokens, np.int64)
    return Members(rewards_G, rewards_G > 0 if success is None else np.array(success, np.bool_), tokens_G)


every_bandit = pytest.mark.parametrize("bandit", [BINARY, RARE, GRADED], ids=["binary", "rare", "graded"])


# Leave-one-out


@given(rewards=REWARDS.filter(lambda rewards: len(rewards) > 1))
def test_leave_one_out_is_the_distance_to_the_mean_of_the_others(rewards) -> None:
    others = [np.mean(rewards[:i] + rewards[i + 1 :]) for i in range(len(rewards))]
    np.testing.assert_allclose(LeaveOneOut().advantages(group(rewards)), np.subtract(rewards, others), atol=1e-12)


@every_bandit
@pytest.mark.parametrize("n", [2, 3, 4])
def test_leave_one_out_estimates_the_gradient_where_the_group_mean_is_short_by_one_in_n(bandit, n) -> None:
    gradient = bandit.gradient(bandit.expected)
    np.testing.assert_allclose(bandit.mean(LeaveOneOut(), n), gradient, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(bandit.mean(GroupMean(std=False), n), (1 - 1 / n) * gradient, rtol=1e-9, atol=1e-13)


# MaxRL


@given(bits=BITS)
def test_maxrl_is_one_over_the_share_of_successes_less_one(bits) -> None:
    share = sum(bits) / len(bits)
    expected = [(b - share) / share for b in bits] if sum(bits) else [0.0] * len(bits)
    np.testing.assert_allclose(MaxRL().advantages(group(bits)), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (group([1, 0, 0, 0]), [3, -1, -1, -1]),
        # the same with other rewards for the verdicts: mean -1/2, distances 3/2 and -1/2, share 1/4
        (group([1, -1, -1, -1], success=[1, 0, 0, 0]), [6, -2, -2, -2]),
        # the mean reward is 0, by which the released code would divide
        (group([1, -1], success=[1, 0]), [2, -2]),
        # no success: nothing, though a penalty makes the failures differ
        (group([0, -0.5, -1], success=[0, 0, 0]), [0, 0, 0]),
        # all succeed, one with a penalty: mean 3/4, share 1
        (group([1, 0.5], success=[1, 1]), [0.25, -0.25]),
        # the successes that are no members do not count: one of two, not three of four
        (group([1, 0, 1, np.nan], tokens=[3, 3, 0, 3], success=[1, 0, 1, 1]), [1, -1, 0, 0]),
        (group([np.nan, 0, 0], success=[1, 0, 0]), [0, 0, 0]),
    ],
)
def test_maxrl_by_hand(members, expected) -> None:
    np.testing.assert_allclose(MaxRL().advantages(members), expected, atol=1e-12)


@pytest.mark.parametrize("bandit", [BINARY, RARE], ids=["binary", "rare"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_maxrl_follows_the_log_likelihood_of_success_up_to_one_term_less_than_members(bandit, n) -> None:
    """log p = -sum over k of (1 - p)^k / k, whose first n - 1 terms have the gradient sum of that of pass@k over k."""

    def likelihood(terms: int):
        return lambda pi: -sum((1 - bandit.expected(pi)) ** k / k for k in range(1, terms + 1))

    found = bandit.mean(MaxRL(), n)
    np.testing.assert_allclose(found, bandit.gradient(likelihood(n - 1)), rtol=1e-9, atol=1e-13)
    assert np.abs(found - bandit.gradient(likelihood(n))).max() > 1e-4  # the test can tell n - 1 from n
    np.testing.assert_allclose(
        bandit.gradient(likelihood(4000)), bandit.gradient(lambda pi: np.log(bandit.expected(pi))), rtol=1e-9
    )


# REINFORCE++

GROUPS = st.lists(
    st.lists(st.tuples(st.integers(-8, 8).map(lambda i: i / 4), st.integers(0, 4)), max_size=5), min_size=1, max_size=4
).map(lambda drawn: [group([r for r, _ in members], tokens=[t for _, t in members]) for members in drawn])


@pytest.mark.parametrize("group_mean", [False, True])
@pytest.mark.parametrize("weight", ["sequence", "token"])
@settings(max_examples=60)
@given(groups=GROUPS, epsilon=st.sampled_from([0.0, 0.25]))
def test_reinforce_pp_is_the_z_score_over_the_responses_or_tokens_of_the_batch(
    group_mean, weight, groups, epsilon
) -> None:
    values = [m.rewards_G - (m.rewards_G[m.valid_G].mean() if m.valid_G.any() and group_mean else 0) for m in groups]
    counted = [
        np.repeat(v, m.tokens_G if weight == "token" else m.valid_G) for v, m in zip(values, groups, strict=True)
    ]
    batch = np.concatenate(counted)
    found = ReinforcePP(group_mean=group_mean, weight=weight, epsilon=epsilon).of_batch(groups)
    some = sum(int(m.valid_G.sum()) for m in groups) > 1 and np.ptp(batch) > 1e-9
    for a_G, v_G, m in zip(found, values, groups, strict=True):
        z_G = (v_G - batch.mean()) / (batch.std(ddof=1) + epsilon) if some else np.zeros(m.size)
        np.testing.assert_allclose(a_G, np.where(m.valid_G, z_G, 0), rtol=1e-9, atol=1e-9)


@given(groups=GROUPS, value=st.sampled_from([0.1, 0.35, 1 / 3, 1e6 + 0.1]), n=st.integers(1, 7))
def test_a_group_without_a_difference_has_no_advantage_whatever_the_others_do(groups, value, n) -> None:
    same = group([value] * n, tokens=np.arange(1, n + 1))
    found = ReinforcePP(epsilon=0).of_batch([*groups, same])
    assert (found[-1] == 0).all()
    for a_G, b_G in zip(found, [GroupMean(std=False).advantages(m) for m in groups], strict=False):
        assert (np.sign(a_G) == np.sign(b_G)).all()


def test_by_tokens_a_group_without_a_difference_is_told_about_the_lengths_of_others() -> None:
    """Why responses are what is counted. Distances 1/2 on one token and -1/2 on three, 0 on four more: the mean over
    tokens is -1/8, so who did as well as ever gets a positive advantage."""
    mixed, solved = group([1, 0], tokens=[1, 3]), group([1, 1], tokens=[2, 2])
    by_token = ReinforcePP(weight="token", epsilon=0).of_batch([mixed, solved])
    deviation = ((1 * (5 / 8) ** 2 + 3 * (3 / 8) ** 2 + 4 * (1 / 8) ** 2) / 7) ** 0.5
    np.testing.assert_allclose(by_token[1], [1 / 8 / deviation] * 2, rtol=1e-12)
    np.testing.assert_allclose(by_token[0], [5 / 8 / deviation, -3 / 8 / deviation], rtol=1e-12)
    assert (ReinforcePP().of_batch([mixed, solved])[1] == 0).all()


def test_a_lone_member_is_compared_with_the_batch_only_without_group_means() -> None:
    lone, mixed = group([1]), group([1, 0, 0])
    assert ReinforcePP().of_batch([lone, mixed])[0].tolist() == [0.0]
    plain = ReinforcePP(group_mean=False, epsilon=0).of_batch([lone, mixed])
    assert plain[0][0] == plain[1][0] > 0


@pytest.mark.parametrize("group_mean", [False, True])
@pytest.mark.parametrize("weight", ["sequence", "token"])
@settings(max_examples=40)
@given(groups=GROUPS, shift=st.integers(-8, 8), scale=st.sampled_from([0.25, 8.0]), data=st.data())
def test_the_whole_batch_may_be_shifted_scaled_and_shuffled(group_mean, weight, groups, shift, scale, data) -> None:
    component = ReinforcePP(group_mean=group_mean, weight=weight, epsilon=0)
    order = data.draw(st.permutations(range(len(groups))))
    changed = [group(scale * (groups[i].rewards_G + shift), tokens=groups[i].tokens_G) for i in order]
    found = component.of_batch(groups)
    for i, a_G in zip(order, component.of_batch(changed), strict=True):
        np.testing.assert_allclose(a_G, found[i], rtol=1e-9, atol=1e-9)


@given(groups=GROUPS, shifts=st.lists(st.integers(-8, 8), min_size=4, max_size=4))
def test_with_group_means_each_group_may_be_shifted_by_itself(groups, shifts) -> None:
    changed = [group(m.rewards_G + s, tokens=m.tokens_G) for m, s in zip(groups, shifts, strict=False)]
    for a_G, b_G in zip(ReinforcePP().of_batch(changed), ReinforcePP().of_batch(groups), strict=True):
        np.testing.assert_allclose(a_G, b_G, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weight", ["sequence", "token"])
@pytest.mark.parametrize("group_mean", [False, True])
def test_members_that_are_not_valid_count_in_no_statistic_of_the_batch(group_mean, weight) -> None:
    component = ReinforcePP(group_mean=group_mean, weight=weight)
    clean = [group([1, 0, 0], tokens=[1, 2, 3]), group([1, 1, 0], tokens=[2, 2, 2])]
    mixed = [
        group([1, np.nan, 0, 0], tokens=[1, 5, 2, 3]),
        group([100, 1, 1, 0], tokens=[0, 2, 2, 2]),
        group([np.nan]),
        group([]),
    ]
    expected, found = component.of_batch(clean), component.of_batch(mixed)
    assert found[0].tolist() == [expected[0][0], 0.0, *expected[0][1:]]
    assert found[1].tolist() == [0.0, *expected[1]]
    assert [a.tolist() for a in found[2:]] == [[0.0], []]


def test_a_chain_gives_a_batch_baseline_all_groups_of_the_step() -> None:
    groups = [group([1, 0], tokens=[2, 1]), group([1, 1], tokens=[1, 2])]
    component = ReinforcePP(group_mean=False)
    per_member = component.of_batch(groups)
    found = advantages_of([component], groups)
    for a_GT, a_G, m in zip(found, per_member, groups, strict=True):
        assert [a.tolist() for a in a_GT] == [[a] * t for a, t in zip(a_G.tolist(), m.tokens_G, strict=True)]
    alone = list(itertools.chain.from_iterable(advantages_of([component], [m])[0] for m in groups))
    assert alone[2].tolist() == [0.0]  # by itself, the second group has no difference
    assert found[1][0][0] > 0
