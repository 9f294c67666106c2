"""The stated goal: an estimate of its gradient without bias, whatever the allocation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bandit import BINARY, RARE, Bandit
from outrider.credit import LeaveOneOut, Members, StatedGoal
from outrider.credit.passk import PassK


def members(bandit: Bandit, draws: tuple[int, ...]) -> Members:
    rewards_G = np.array(bandit.rewards)[list(draws)]
    return Members(rewards_G, rewards_G >= bandit.best, np.ones(len(rewards_G), np.int64))


@pytest.mark.parametrize(("k", "sizes"), [(1, (2, 5)), (1, (4, 2)), (2, (3, 5)), (3, (5, 3))])
def test_the_mean_over_all_members_is_the_gradient_of_the_mean_over_problems(k: int, sizes: tuple[int, int]) -> None:
    """Over all groups that two problems can draw; both are solved by one policy, in ways that weigh differently."""
    bandits, expected = (BINARY, RARE), []
    found = [np.zeros(len(bandit.logits)) for bandit in bandits]
    for bandit in bandits:
        expected.append(bandit.gradient(bandit.best_of(k)) / 2)
    pis = [bandit.probabilities() for bandit in bandits]
    ways = [list(itertools.product(range(len(pi)), repeat=n)) for pi, n in zip(pis, sizes, strict=True)]
    # the advantages of a problem depend on the other one's size alone, so one draw of the other stands for all
    other = [members(bandit, way[0]) for bandit, way in zip(bandits, ways, strict=True)]
    for i, (bandit, pi) in enumerate(zip(bandits, pis, strict=True)):
        for draws in ways[i]:
            groups = [members(bandit, draws) if j == i else other[j] for j in range(2)]
            scores = np.eye(len(pi))[list(draws)] - pi
            a_G = StatedGoal(k=k).of_batch(groups)[i]
            found[i] += pi[list(draws)].prod() * (a_G @ scores) / sum(sizes)
    for one, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-9, atol=1e-13)


def test_groups_of_one_size_are_those_of_pkpo_and_leave_one_out() -> None:
    groups = [members(BINARY, draws) for draws in ((1, 0, 2, 3), (0, 0, 0, 1))]
    for baseline, k in ((LeaveOneOut(), 1), (PassK(k=2, variant="pkpo"), 2)):
        for ours, group in zip(StatedGoal(k=k).of_batch(groups), groups, strict=True):
            np.testing.assert_allclose(ours, baseline.advantages(group), rtol=1e-12)


def test_a_problem_that_nobody_could_verify_counts_nowhere() -> None:
    nobody = Members(np.full(3, np.nan), np.zeros(3, np.bool_), np.ones(3, np.int64))
    group = members(BINARY, (1, 0))
    alone, beside = StatedGoal().of_batch([group])[0], StatedGoal().of_batch([group, nobody])
    np.testing.assert_array_equal(alone, beside[0])
    assert beside[1].tolist() == [0, 0, 0]
    assert [a.tolist() for a in StatedGoal().of_batch([nobody])] == [[0, 0, 0]]
    assert StatedGoal().of_batch([]) == []


@pytest.mark.parametrize("p", [0.1, 0.3])
def test_more_rollouts_where_the_first_failed_estimate_another_goal(p: float) -> None:
    """Over all ways in which they end, with respect to the logit of p: six rollouts have the slope p (1 - p) of the
    goal; a pilot of two with four more where both failed has a third more at least. So such stages are refused."""

    def slope(pilot: int, more: int) -> float:
        total = 0.0
        for first in itertools.product((0, 1), repeat=pilot):
            for then in itertools.product((0, 1), repeat=0 if any(first) else more):
                ends = np.array(first + then)
                [a_G] = StatedGoal().of_batch([Members(ends.astype(float), ends > 0, np.ones(len(ends), np.int64))])
                total += np.where(ends, p, 1 - p).prod() * (a_G @ (ends - p)) / len(ends)
        return total

    assert slope(6, 0) == pytest.approx(p * (1 - p))
    assert slope(2, 4) > 4 / 3 * p * (1 - p)
