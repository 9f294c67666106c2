"""The James-Stein baseline: without bias over all groups, by its definition, and with less variance where it should."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bandit import BINARY, RARE
from outrider.credit import LeaveOneOut, Members, Shrinkage


def group(rewards: list[float]) -> Members:
    rewards_G = np.array(rewards, np.float64)
    return Members(rewards_G, rewards_G > 0.5, np.ones(len(rewards_G), np.int64))


def test_the_mean_over_a_groups_members_is_the_gradient_of_its_problem() -> None:
    """Over everything that two rollouts of each of three problems can be; the third is solved as the first is."""
    bandits = (BINARY, RARE, BINARY)
    pis = [bandit.probabilities() for bandit in bandits]
    found = [np.zeros(len(pi)) for pi in pis]
    for draws in itertools.product(*(itertools.product(range(len(pi)), repeat=2) for pi in pis)):
        chance = np.prod([pi[list(each)].prod() for pi, each in zip(pis, draws, strict=True)])
        groups = [group(np.array(b.rewards)[list(each)].tolist()) for b, each in zip(bandits, draws, strict=True)]
        for i, a_G in enumerate(Shrinkage().of_batch(groups)):
            scores = np.eye(len(pis[i]))[list(draws[i])] - pis[i]
            found[i] += chance * (a_G @ scores) / 2
    for one, bandit in zip(found, bandits, strict=True):
        np.testing.assert_allclose(one, bandit.gradient(bandit.expected), rtol=1e-9, atol=1e-13)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 0.25]), min_size=3, max_size=3), min_size=3, max_size=5))
def test_groups_of_one_size_by_definition(drawn: list[list[float]]) -> None:
    """As in the released code, member by member, but for its 1e-6 in the denominator."""
    rewards_PG = np.array(drawn)
    found = np.array(Shrinkage().of_batch([group(each) for each in drawn]))
    for i, j in itertools.product(*map(range, rewards_PG.shape)):
        rest_PG, own = np.delete(rewards_PG, i, 0), np.delete(rewards_PG[i], j)
        v, s = (rest_PG.var(1, ddof=1) / 3).mean(), rest_PG.mean(1).var()
        share = v / (v + s) if v else 0.0
        guess = (1 - share) * own.mean() + share * rest_PG.mean()
        assert found[i, j] == pytest.approx(rewards_PG[i, j] - guess, abs=1e-12)


def squares(rates: NDArray[np.float64], n: int) -> tuple[float, float]:
    """The mean squared advantage with shrinkage, and by leave-one-out."""
    rng, found = np.random.default_rng(0), []
    for _ in range(150):
        groups = [group((rng.random(n) < rate).astype(float).tolist()) for rate in rates]
        ours, theirs = Shrinkage().of_batch(groups), [LeaveOneOut().advantages(each) for each in groups]
        found.append([np.square(np.concatenate(each)).mean() for each in (ours, theirs)])
    shrunk, alone = np.mean(found, axis=0)
    return float(shrunk), float(alone)


def test_where_problems_are_alike_half_of_the_noise_of_two_rollouts_goes() -> None:
    """Leave-one-out has twice p (1 - p), half of the way to the others 5/4; far from the mean nothing is lost."""
    shrunk, alone = squares(np.full(16, 0.3), 2)
    assert alone == pytest.approx(2 * 0.3 * 0.7, rel=0.05)
    assert shrunk < 1.35 * 0.3 * 0.7
    apart = np.array([0.02] * 8 + [0.98] * 8)
    shrunk, alone = squares(apart, 4)
    assert alone == pytest.approx(0.02 * 0.98 * 4 / 3, rel=0.1)
    assert shrunk < 1.1 * alone


def test_lone_members_are_compared_with_the_others_and_alone_with_nothing() -> None:
    one, other = group([1.0]), group([0.0])
    assert [a.tolist() for a in Shrinkage().of_batch([one])] == [[0.0]]
    assert [a.tolist() for a in Shrinkage().of_batch([one, other])] == [[1.0], [-1.0]]
    assert [a.tolist() for a in Shrinkage().of_batch([one, other, group([])])] == [[1.0], [-1.0], []]
    unscorable = group([np.nan])
    assert [a.tolist() for a in Shrinkage().of_batch([one, unscorable])] == [[0.0], [0.0]]
    mixed = group([1.0, 0.0])
    found = Shrinkage().of_batch([mixed, one, other])  # nobody else has a variance inside
    assert found[0].tolist() == LeaveOneOut().advantages(mixed).tolist()
