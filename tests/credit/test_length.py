"""Reward shapers by length: DAPO's soft punishment and Kimi's length reward."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.credit import Brevity, GroupMean, Members, Overlong, advantages


def members(rewards, tokens, success=None, starts=None) -> Members:
    rewards = np.array(rewards, np.float64)
    return Members(
        rewards,
        rewards > 0 if success is None else np.array(success),
        np.array(tokens, np.int64),
        starts_G=np.zeros(len(rewards), np.int64) if starts is None else np.array(starts),
    )


DAPO = Overlong(max_tokens=20_480, buffer=4_096)


@pytest.mark.parametrize(
    ("length", "penalty"), [(1, 0), (16_384, 0), (17_408, 0.25), (18_432, 0.5), (20_480, 1), (30_000, 1)]
)
def test_the_numbers_of_dapo(length, penalty) -> None:
    """Nothing up to 20480 - 4096 = 16384 tokens, then 1/4096 a token, all of it at the limit and beyond."""
    assert DAPO.rewards(members([1.0], [length]), 1).tolist() == [1 - penalty]


@given(st.integers(1, 300), st.integers(1, 200), st.integers(1, 200))
def test_equation_13_case_by_case(length, limit, buffer) -> None:
    if buffer > limit:
        return
    if length <= limit - buffer:
        expected = 0.0
    elif length <= limit:
        expected = ((limit - buffer) - length) / buffer
    else:
        expected = -1.0
    found = Overlong(max_tokens=limit, buffer=buffer, weight=3.0).rewards(members([0.5], [length]), 1)
    assert found[0] == pytest.approx(0.5 + 3.0 * expected)


def test_the_penalty_is_centred_like_the_reward() -> None:
    """Two correct answers, the second cut at the limit: rewards 1 and 0, so it falls below their mean."""
    found = advantages([Overlong(max_tokens=10, buffer=5), GroupMean(std=False)], members([1, 1], [5, 10]))
    assert [float(a[0]) for a in found] == [0.5, -0.5]


def test_rewards_of_members_that_are_not_valid_stay() -> None:
    group = members([math.nan, 7.0, 1.0], [10, 0, 10], success=[False, True, True])
    for shaper in Overlong(max_tokens=10, buffer=5), Brevity():
        found = shaper.rewards(group, 1)
        assert math.isnan(found[0])
        assert found[1] == 7.0


def test_a_buffer_longer_than_the_limit_is_refused() -> None:
    with pytest.raises(ValidationError, match="buffer is 11, but should be at most max_tokens, 10"):
        Overlong(max_tokens=10, buffer=11)


def test_brevity_of_one_length_changes_nothing() -> None:
    for rewards, tokens in ([1, 0], [5, 5]), ([1], [5]), ([1, math.nan, 0], [5, 9, 5]), ([], []):
        found = Brevity().rewards(members(rewards, tokens), 1)
        assert found.tolist() == pytest.approx(rewards, nan_ok=True)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, math.nan]), st.integers(0, 9)), min_size=1, max_size=8))
def test_brevity_is_the_reports_formula(drawn) -> None:
    group = members([r for r, _ in drawn], [n for _, n in drawn])
    lengths = [n for r, n in drawn if not math.isnan(r) and n > 0]
    found = Brevity(weight=2.0).rewards(group, 1)
    for (reward, length), new in zip(drawn, found, strict=True):
        expected = reward
        if not math.isnan(reward) and length > 0 and max(lengths) > min(lengths):
            value = 0.5 - (length - min(lengths)) / (max(lengths) - min(lengths))
            expected = reward + 2.0 * (value if reward == 1 else min(0.0, value))
        assert new == pytest.approx(expected, nan_ok=True)
