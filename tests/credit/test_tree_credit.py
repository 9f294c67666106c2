"""Baselines over trees: siblings, Tree-GRPO's z-scores, the segment values of TreeRL and AttnRL.

The rules that they share with every baseline are in ``test_credit_matrix.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forests import Drawn, Token, forests, paths
from outrider.credit import Baseline, GroupMean, Members, advantages
from outrider.credit.forest import trees
from outrider.credit.siblings_mean import SiblingsMean
from outrider.credit.tree_grpo import TreeGrpo
from outrider.credit.tree_values import TreeValues

PAPER, CODE = TreeValues(), TreeValues(variant="treerl_code")
ON_TREES = [SiblingsMean(), SiblingsMean(std=True), TreeGrpo(), PAPER, CODE]

every_baseline = pytest.mark.parametrize("baseline", ON_TREES, ids=str)


def members(rewards, parents, starts, tokens=None, families=None) -> Members:
    rewards_G = np.array(rewards, dtype=np.float64)
    n = len(rewards_G)
    return Members(
        rewards_G,
        rewards_G > 0,
        np.full(n, 6) if tokens is None else np.array(tokens),
        parents_G=np.array(parents),
        starts_G=np.array(starts),
        families_G=np.zeros(n, np.int64) if families is None else np.array(families),
    )


# Values of segments, against the definition applied to one token at a time


def known(drawn: Drawn, token: Token) -> frozenset[int]:
    """The valid members that go through a token."""
    return frozenset(i for i in drawn.through(token) if drawn.members.valid_G[i])


def history(drawn: Drawn, token: Token) -> list[frozenset[int]]:
    """Who goes through the segments from the prompt to a token, when only valid members cut them."""
    path = drawn.paths[token[0]]
    seen: list[frozenset[int]] = []
    for before in path[: path.index(token) + 1]:
        if before[0] >= 0 and (through := known(drawn, before)) not in seen:
            seen.append(through)
    return seen


def paper(rewards: dict[int, float], segments: list[frozenset[int]]) -> float:
    def value(leaves: frozenset[int]) -> float:
        return float(np.mean([rewards[i] for i in leaves]))

    here, everyone = segments[-1], frozenset(rewards)
    before = segments[-2] if len(segments) > 1 else everyone
    return (value(here) - value(everyone) + value(here) - value(before)) / len(here) ** 0.5


def code(rewards: dict[int, float], segments: list[frozenset[int]]) -> float:
    centred = {i: r - np.mean([rewards[j] for j in rewards if j != i]) for i, r in rewards.items()}
    values = [0.0] + [sum(centred[i] for i in leaves) / len(leaves) ** 0.5 / len(leaves) for leaves in segments]
    steps: list[float] = []
    for before, value in itertools.pairwise(values):
        step = value - before
        steps.append(steps[-1] if steps and abs(step) < 1e-8 else step)
    return steps[-1] + values[-1]


@pytest.mark.parametrize(("baseline", "formula"), [(PAPER, paper), (CODE, code)], ids=["paper", "code"])
@given(drawn=forests())
def test_values_are_the_definition_token_by_token(baseline: TreeValues, formula: Callable, drawn: Drawn) -> None:
    valid_G, rewards_G = drawn.members.valid_G, drawn.members.rewards_G
    rewards = {i: float(rewards_G[i]) for i in np.flatnonzero(valid_G).tolist()}
    found = baseline.per_token(drawn.members)
    assert [len(a) for a in found] == drawn.members.tokens_G.tolist()
    for i, found_T in enumerate(found):
        for k, advantage in enumerate(found_T.tolist()):
            if len(set(rewards.values())) < 2 or not known(drawn, (i, k)):
                assert advantage == 0.0
            else:
                assert advantage == pytest.approx(formula(rewards, history(drawn, (i, k))), abs=1e-12)


def test_without_branches_the_values_are_twice_the_distance_to_the_mean() -> None:
    flat = members([1, 0, 0, 0], [-1] * 4, [0] * 4)
    np.testing.assert_allclose(PAPER.advantages(flat), 2 * GroupMean(std=False).advantages(flat), rtol=1e-12)
    np.testing.assert_allclose(CODE.advantages(flat), 8 / 3 * GroupMean(std=False).advantages(flat), rtol=1e-12)


# Siblings


@given(drawn=forests(), data=st.data())
def test_siblings_are_compared_with_each_other_only(drawn: Drawn, data: st.DataObject) -> None:
    n = drawn.members.size
    families = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    group = replace(drawn.members, families_G=families)
    found = SiblingsMean().advantages(group)
    for i in range(n):
        family = [j for j in range(n) if families[j] == families[i] and group.valid_G[j]]
        mean = np.mean(group.rewards_G[family]) if family else 0.0
        assert found[i] == pytest.approx(group.rewards_G[i] - mean if group.valid_G[i] else 0.0)


# Tree-GRPO


@given(drawn=forests())
def test_tree_grpo_is_the_z_score_in_the_group_plus_that_in_the_tree(drawn: Drawn) -> None:
    group = drawn.members
    tree = trees(group.parents_G)

    def z(i: int, others: list[int]) -> float:
        rewards = [group.rewards_G[j] for j in others if group.valid_G[j]]
        if len(set(rewards)) < 2:
            return 0.0
        return (group.rewards_G[i] - np.mean(rewards)) / (np.std(rewards, ddof=1) + 1e-6)

    found = TreeGrpo().advantages(group)
    for i in range(group.size):
        expected = 0.0
        if group.valid_G[i]:
            everyone = list(range(group.size))
            expected = z(i, everyone) + z(i, [j for j in everyone if tree[j] == tree[i]])
        assert found[i] == pytest.approx(expected, abs=1e-9)


# All of them


@every_baseline
@given(drawn=forests(), data=st.data())
def test_a_permutation_of_a_forest_permutes_the_advantages(
    baseline: Baseline, drawn: Drawn, data: st.DataObject
) -> None:
    group = drawn.members
    order = np.array(data.draw(st.permutations(range(group.size))))
    place = np.argsort(order)
    shuffled = replace(
        group,
        rewards_G=group.rewards_G[order],
        success_G=group.success_G[order],
        tokens_G=group.tokens_G[order],
        starts_G=group.starts_G[order],
        parents_G=np.array([-1 if p < 0 else place[p] for p in group.parents_G[order]]),
    )
    found, permuted = advantages([baseline], group), advantages([baseline], shuffled)
    for i, a in zip(order, permuted, strict=True):
        np.testing.assert_allclose(a, found[i], rtol=1e-9, atol=1e-12)


@every_baseline
@given(drawn=forests(), data=st.data())
def test_a_branch_that_is_not_valid_changes_no_other_member(
    baseline: Baseline, drawn: Drawn, data: st.DataObject
) -> None:
    """Unscorable, wherever it branches off and however many tokens it has."""
    group = drawn.members
    parent = data.draw(st.integers(-1, group.size - 1))
    start = data.draw(st.integers(0, len(drawn.paths[parent]))) if parent >= 0 else 0
    more = Members(
        np.append(group.rewards_G, np.nan),
        np.append(group.success_G, False),
        np.append(group.tokens_G, data.draw(st.integers(0, 3))),
        parents_G=np.append(group.parents_G, parent),
        starts_G=np.append(group.starts_G, start),
        families_G=np.append(group.families_G, 0),
    )
    found = advantages([baseline], more)
    assert not found[-1].any()
    for a, b in zip(found[:-1], advantages([baseline], group), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@every_baseline
@given(drawn=forests(), reward=st.floats(-1e6, 1e6))
def test_a_forest_of_equal_rewards_gives_exactly_zero(baseline: Baseline, drawn: Drawn, reward: float) -> None:
    equal = replace(drawn.members, rewards_G=np.where(np.isnan(drawn.members.rewards_G), np.nan, reward))
    assert not any(a.any() for a in advantages([baseline], equal))


@given(drawn=forests())
def test_the_random_forests_hold_what_the_tests_are_about(drawn: Drawn) -> None:
    assert paths(drawn.members) == drawn.paths
    assert all(len(set(path)) == len(path) for path in drawn.paths)


# DARS: one group over the union of both rounds


@given(st.integers(2, 64).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_pull_of_a_union_grows_with_its_size(case: tuple[int, int]) -> None:
    """The sum of |A| over a group is 2 n u (1 - u): no 1/n anywhere, or the second round of DARS would cancel out."""
    n, successes = case
    rewards = [1.0] * successes + [0.0] * (n - successes)
    u = successes / n
    pull = np.abs(GroupMean(std=False).advantages(members(rewards, [-1] * n, [0] * n))).sum()
    assert pull == pytest.approx(2 * n * u * (1 - u))
