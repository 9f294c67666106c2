"""Credit that spreads: focal weights, quantiles, smoothing and equal shares, by definition and over all outcomes.

By hand they are in ``credit_cases.py``.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.credit import (
    AnnealedPassK,
    BoundaryGate,
    Focal,
    GroupMean,
    Members,
    NoBaseline,
    PassK,
    Quantile,
    Smoothing,
    UniformCorrect,
    advantages,
)

SCORES = st.lists(st.tuples(st.booleans(), st.floats(-6, 0)), min_size=2, max_size=8)


def group(success: list[bool], scores: list[float] | None = None, tokens: list[int] | None = None) -> Members:
    """Members whose every token has the log-probability ``scores``."""
    counts = [3] * len(success) if tokens is None else tokens
    scores = [-1.0] * len(success) if scores is None else scores
    return Members(
        np.array(success, np.float64),
        np.array(success),
        np.array(counts),
        logprobs_GT=[np.full(n, s) for n, s in zip(counts, scores, strict=True)],
    )


# Focal


@pytest.mark.parametrize("n", range(1, 9))
def test_a_focal_weight_keeps_directions_and_falls_with_the_share_of_successes(n: int) -> None:
    factors = []
    for c in range(n + 1):
        members = group([i < c for i in range(n)])
        base = [np.full(3, 2.0)] * n
        [factor] = {float(a[0]) / 2.0 for a in Focal(gamma=2.0).shape(base, members, 1)}
        assert factor == pytest.approx(((n - c) / n) ** 2)
        factors.append(factor)
    assert factors[0] == 1.0
    assert factors[-1] == 0.0
    assert factors == sorted(factors, reverse=True)
    assert [a.tolist() for a in Focal(gamma=0.0).shape(base, group([True] * n), 1)] == [a.tolist() for a in base]


# Quantile


@pytest.mark.parametrize("share", ["0.1", "0.2", "0.4", "0.5", "0.6", "0.7"])
def test_a_quantile_is_a_gate_at_one_less_its_share(share: str) -> None:
    """In exact arithmetic: 0.4 of five is two, and three successes of five are a share of exactly 0.6."""
    exact = Fraction(share)
    for n in range(2, 21):
        for c in range(1, n):
            found = Quantile(share=float(share), epsilon=0.0).advantages(group([i < c for i in range(n)]))
            p = c / n
            size = 1 / math.sqrt(n / (n - 1) * p * (1 - p))
            hard = Fraction(c, n) <= 1 - exact
            wanted = [size if hard else 0.0] * c + [0.0 if hard else -size] * (n - c)
            np.testing.assert_allclose(found, wanted, atol=1e-12)


@given(st.lists(st.integers(-8, 8).map(lambda i: i / 4), min_size=2, max_size=9), st.floats(0.05, 0.95))
def test_a_quantile_is_the_least_reward_that_so_many_do_not_exceed(rewards: list[float], share: float) -> None:
    rewards_G = np.array(rewards)
    found = Quantile(share=share, std=False).advantages(Members(rewards_G, rewards_G > 0, np.full(len(rewards), 2)))
    reached = [x for x in rewards if sum(r <= x for r in rewards) >= share * len(rewards) - 1e-9]
    expected = rewards_G - min(reached) if len(set(rewards)) > 1 else np.zeros(len(rewards))
    np.testing.assert_allclose(found, expected)


# Smoothing


@given(SCORES)
def test_smoothing_orders_successes_by_rarity_and_failures_by_likelihood(drawn: list[tuple[bool, float]]) -> None:
    success, scores = [s for s, _ in drawn], [x for _, x in drawn]
    zeros = [np.zeros(3)] * len(drawn)
    found = [float(a[0]) for a in Smoothing(correct=0.5, wrong=0.25).shape(zeros, group(success, scores), 1)]
    assert found == pytest.approx([-0.5 * x if s else 0.25 * x for s, x in drawn])


def test_smoothing_is_an_entropy_bonus_on_what_is_right_and_a_penalty_on_what_is_wrong() -> None:
    """Over all responses of a policy: the mean gradient of what is added is that of the entropy of each part."""
    logits = np.array([0.3, -0.2, 1.1, 0.4, -0.7])
    right = np.array([True, True, False, True, False])
    pi = np.exp(logits) / np.exp(logits).sum()

    def plain(part: np.ndarray) -> np.ndarray:
        """The gradient of -sum over a part of pi log pi by the logits, numerically."""
        steps = np.eye(len(logits)) * 1e-6

        def value(z: np.ndarray) -> float:
            q = np.exp(z) / np.exp(z).sum()
            return float(-(q * np.log(q))[part].sum())

        return np.array([(value(logits + e) - value(logits - e)) / 2e-6 for e in steps])

    members = group(right.tolist(), np.log(pi).tolist(), tokens=[1] * 5)
    added = np.array([a[0] for a in Smoothing(correct=0.2, wrong=0.5).shape([np.zeros(1)] * 5, members, 1)])
    scores = np.eye(5) - pi  # the gradient of log pi(y) by the logits, a row for each response
    found = (pi * added) @ scores
    # d/dz sum pi f with f = -log pi: the term of f's own gradient is -sum over the part of pi grad log pi
    own = {part: -(pi * mask) @ scores for part, mask in (("right", right), ("wrong", ~right))}
    wanted = 0.2 * (plain(right) - own["right"]) - 0.5 * (plain(~right) - own["wrong"])
    np.testing.assert_allclose(found, wanted, atol=1e-7)


# Equal shares


@given(SCORES, st.floats(0, 1))
def test_equal_shares_keep_the_sum_of_a_group(drawn: list[tuple[bool, float]], tau: float) -> None:
    members = group([s for s, _ in drawn], [x for _, x in drawn])
    before, after = (
        np.array([a[0] for a in advantages(chain, members)])
        for chain in ([GroupMean()], [GroupMean(), UniformCorrect(tau=tau)])
    )
    assert after.sum() == pytest.approx(0.0, abs=1e-9)
    assert (np.sign(after) * np.sign(before) >= 0).all()
    failures = [i for i, (s, _) in enumerate(drawn) if not s]
    assert (after[failures] == before[failures]).all()
    for (i, (s, x)), (j, (t, y)) in itertools.combinations(enumerate(drawn), 2):
        if s and t and x < y - 1e-6:
            assert after[i] >= after[j] - 1e-12, "the rarer one gets no less"


def test_equal_shares_follow_their_objective() -> None:
    """The gradient of log Z - tau KL(u || q), from a group that holds each correct response as often as q says."""
    counts, tau = [3, 2, 1], 0.3
    logits = np.log(counts)

    def chances(z: np.ndarray) -> np.ndarray:
        return np.exp(z) / (np.exp(z).sum() + 4.0)  # beside one that is wrong

    def objective(z: np.ndarray) -> float:
        pi = chances(z)
        q = pi / pi.sum()
        return float(np.log(pi.sum()) - tau * (np.log(1 / 3) - np.log(q)).mean())

    steps = np.eye(3) * 1e-6
    wanted = np.array([(objective(logits + e) - objective(logits - e)) / 2e-6 for e in steps])
    pi, drawn = chances(logits), np.repeat(range(3), counts)
    members = group([True] * 6, np.log(pi)[drawn].tolist(), tokens=[1] * 6)
    weights = np.array([a[0] for a in UniformCorrect(tau=tau).shape([np.ones(1)] * 6, members, 1)])
    scores = (np.eye(3) - pi)[drawn]  # the gradient of log pi(y) by the logits, a row for each member
    np.testing.assert_allclose((weights[:, None] * scores).mean(0), wanted, atol=1e-7)


# The boundary


@pytest.mark.parametrize(("n", "k"), [(1, 2), (4, 3), (8, 16), (16, 64)])
def test_the_value_of_a_gain_is_the_mean_slope_of_passk(n: int, k: int) -> None:
    """Integrated over the posterior of a flat prior, numerically."""
    p = (np.arange(200_000) + 0.5) / 200_000
    for c in range(n + 1):
        posterior = p**c * (1 - p) ** (n - c)
        wanted = (k * (1 - p) ** (k - 1) * posterior).sum() / posterior.sum()
        assert BoundaryGate(k=k).utility(c, n) == pytest.approx(wanted, rel=1e-6)


def test_only_problems_near_the_boundary_teach_and_those_without_success_most() -> None:
    """With 8 members, k = 16 and a threshold of 0.01: up to three successes (0.19 is above 0.09, 0.05 is not)."""
    sizes = []
    for c in range(9):
        members = group([i < c for i in range(8)])
        signed = Members(np.where(members.success_G, 1.0, -1.0), members.success_G, members.tokens_G)
        found = advantages([NoBaseline(), BoundaryGate()], signed)
        [size] = {abs(float(a[0])) for a in found}
        assert all((a[0] >= 0) == ok or size == 0 for a, ok in zip(found, members.success_G, strict=True))
        sizes.append(size)
    assert [size > 0 for size in sizes] == [True] * 4 + [False] * 5
    assert sizes[0] == sizes[1] == 1.0
    # u(1) of 2 with k = 2 is 2 (2 / 4) = 1, and 0.25 (n + 1) is 0.75; at 1 / 3 it is 1 as well
    for threshold, taught in [(0.25, True), (1 / 3, True), (0.34, False)]:
        found = advantages([GroupMean(std=False), BoundaryGate(k=2, threshold=threshold)], group([True, False]))
        assert found[0].any() == taught
    assert sizes[:4] == sorted(sizes[:4], reverse=True)


# k that falls


def test_every_k_has_its_share_of_the_steps() -> None:
    component = AnnealedPassK(first=6, last=2, steps=100)
    ks = [component.at(step) for step in range(1, 131)]
    assert ks == sorted(ks, reverse=True)
    assert [ks[:100].count(k) for k in (6, 5, 4, 3, 2)] == [20] * 5
    assert set(ks[100:]) == {2}


def test_in_every_step_it_is_passk_training_with_that_k() -> None:
    members = group([True, True, False, False, False, False])
    for step, k in [(1, 4), (3, 3), (5, 2), (7, 1), (400, 1)]:
        found = advantages([AnnealedPassK(first=4, last=1, steps=8)], members, step)
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(advantages([PassK(k=k)], members)))
    with pytest.raises(ValueError, match="pass step"):
        advantages([AnnealedPassK()], members)
    with pytest.raises(ValueError, match="last is 5, but should be at most first, 4"):
        AnnealedPassK(first=4, last=5)
