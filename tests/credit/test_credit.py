"""Hand numbers of the group mean, and chains. The rules that every component keeps are in ``test_credit_matrix.py``."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.arrays import Floats
from outrider.credit import GroupMean, Members, Shaper, advantages


def group(rewards, tokens=None) -> Members:
    rewards_G = np.asarray(rewards, dtype=np.float64)
    tokens_G = np.full(len(rewards_G), 3) if tokens is None else np.asarray(tokens)
    return Members(rewards_G, rewards_G > 0, tokens_G)


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
        ([PlusPosition()], "must have exactly one baseline, but this one has 0"),
        ([GroupMean(), GroupMean()], "must have exactly one baseline, but this one has 2"),
        ([PlusPosition(), GroupMean()], "PlusPosition comes too early in its credit chain"),
    ],
)
def test_a_chain_has_one_baseline_and_everything_in_its_place(chain, message):
    with pytest.raises(ValueError, match=message):
        advantages(chain, group([1, 0]))
