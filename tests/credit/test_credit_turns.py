"""Credit where rollouts have turns: what an environment said changes no credit, wherever it stands.

A metamorphic rule for every component of the matrix: observed tokens are put into the groups of ``outrider.testing``,
and all sampled tokens keep their advantages, and their weights under every denominator. No component is excepted: also
the formulas that count positions or lengths count sampled tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from credit_cases import CASES, STEP, Case

from outrider.credit import Link, Members
from outrider.credit.assign import Assigned, assign
from outrider.credit.paths import PrefixPolicy
from outrider.objective.options import ObjectiveOptions
from outrider.objective.weights import token_weights
from outrider.record import Context, Group, Problem, Rollout, correct, incorrect
from outrider.testing.credit import chains
from outrider.testing.credit_groups import FLAT, FORESTS, parts

PROMPT = np.array([1], np.int32)
NO_IDS = np.zeros(0, np.int32)
Gaps = Callable[[int, int], np.ndarray]


def at(*places: float) -> Gaps:
    """Two observed tokens at these shares of the response: 0 the beginning, 1 the end."""
    return lambda tokens, seed: 2 * np.isin(np.arange(tokens + 1), [round(share * tokens) for share in places])


def anywhere(tokens: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, tokens]).integers(0, 3, tokens + 1)


# observed tokens before each sampled one, and behind the last
WAYS: dict[str, Gaps] = {
    "at the beginning": at(0),
    "in the middle": at(0.5),
    "at the end": at(1),
    "around every token": lambda tokens, seed: np.ones(tokens + 1, np.int64),
    "anywhere": anywhere,
}


def rollouts_of(members: Members, name: str, stream: str) -> list[Rollout]:
    """The members as rollouts, all tokens sampled; those that continue another one in ``stream``."""
    made: dict[int, Rollout] = {}

    def make(i: int) -> Rollout:
        if i not in made:
            parent, start = int(members.parents_G[i]), int(members.starts_G[i])
            n = int(members.tokens_G[i])
            made[i] = Rollout(
                problem_id=name,
                group_id=name,
                member=i,
                prompt_ids=PROMPT,
                token_ids=np.arange(n, dtype=np.int32) + 10 * i,
                logprobs_T=members.logprobs_GT[i].astype(np.float32),
                entropies_T=members.entropies_GT[i].astype(np.float32),
                prefix_ids=make(parent).response_ids[:start] if parent >= 0 else NO_IDS,
                parent=f"{name}/{parent}" if parent >= 0 else None,
                stream=stream if parent >= 0 else "main",
                context=Context("seeded", ("q",)) if members.seeded_G[i] else Context(),
                stage="1-greedy" if members.greedy_G[i] else "0-uniform",
            ).verified(correct() if members.success_G[i] else incorrect(), float(members.rewards_G[i]))
        return made[i]

    for i in range(members.size):
        make(i)
    return list(made.values())  # a parent before its branches, as they were drawn


def heard(rollouts: Sequence[Rollout], gaps: Gaps) -> list[Rollout]:
    """The same, as if an environment had spoken in between. A branch that began there begins behind what it said."""
    by_id, made = {r.id: r for r in rollouts}, {}

    def observed(rollout: Rollout) -> np.ndarray:
        return gaps(len(rollout.token_ids), rollout.member)

    def place(rollout: Rollout, start: int) -> int:
        own = start - rollout.branch_at
        if own <= 0:
            return place(by_id[rollout.parent], start) if rollout.parent else 0
        return make(rollout.id).branch_at + own + int(observed(rollout)[: own + 1].sum())

    def make(name: str) -> Rollout:
        if name not in made:
            old = by_id[name]
            flags_T = np.concatenate([[False] * n + [True] for n in observed(old)])[:-1].astype(np.bool_)
            ids_T, logprobs_T, entropies_T = (np.full(len(flags_T), fill) for fill in (9, np.nan, np.nan))
            ids_T[flags_T], logprobs_T[flags_T], entropies_T[flags_T] = old.token_ids, old.logprobs_T, old.entropies_T
            parent = make(old.parent) if old.parent else None
            made[name] = replace(
                old,
                token_ids=ids_T.astype(np.int32),
                logprobs_T=logprobs_T.astype(np.float32),
                entropies_T=entropies_T.astype(np.float32),
                trainable_T=flags_T,
                prefix_ids=NO_IDS if parent is None else parent.response_ids[: place(by_id[parent.id], old.branch_at)],
            )
        return made[name]

    return [make(r.id) for r in rollouts]


def listener(group: Sequence[Rollout], reward: float) -> Rollout:
    """A rollout that only observes."""
    nan_T = np.full(3, np.nan, np.float32)
    root = replace(group[0], member=len(group), parent=None, prefix_ids=NO_IDS, stream="main", stage="0-uniform")
    seen = {"token_ids": np.full(3, 9, np.int32), "trainable_T": np.zeros(3, np.bool_)}
    return replace(root, **seen, logprobs_T=nan_T, entropies_T=nan_T).verified(correct(), reward)


@cache
def drawn(stream: str) -> list[list[Rollout]]:
    return [rollouts_of(group, f"g{i}", stream) for i, group in enumerate(FLAT[:2] + FORESTS[:6])]


@cache
def spoken(stream: str, gaps: Gaps) -> list[list[Rollout]]:
    """Those groups, as if an environment had spoken in between."""
    return [heard(group, gaps) for group in drawn(stream)]


def assigned(chain: Sequence[Link], groups: Sequence[Sequence[Rollout]], prefix: PrefixPolicy) -> Assigned:
    made = [Group(Problem(g[0].group_id, ""), g[0].group_id, tuple(g)) for g in groups]
    return assign(made, {"main": chain, "branch": chain}, STEP, False, lambda problem: PROMPT, prefix, token_texts)


def token_texts(ids: np.ndarray) -> list[str]:
    return [["\\boxed{", "}", "x", " 7}"][i % 4] for i in ids]


def assert_same_credit(found: Assigned, expected: Assigned) -> None:
    assert len(found.rows) == len(expected.rows)
    for row, other in zip(found.rows, expected.rows, strict=True):
        assert other.trainable_N.sum() == row.trainable_N.sum()
        assert not row.advantages_N[~row.trainable_N].any()
    both = [np.concatenate([row.advantages_N[row.trainable_N] for row in a.rows]) for a in (found, expected)]
    np.testing.assert_allclose(*both, rtol=1e-9, atol=1e-12)
    for aggregate in ("token_mean", "sequence_mean", {"constant": {"length": 5}}):
        options = ObjectiveOptions(aggregate=aggregate, streams={"main": 1.0, "branch": 0.5})
        weights = [token_weights(assigned.rows, options, max_tokens=64) for assigned in (found, expected)]
        np.testing.assert_allclose(*weights, rtol=1e-12)


@pytest.mark.parametrize("stream", ["main", "branch"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_group_says_the_same_whatever_was_observed(way: Gaps, stream: str) -> None:
    """Of a group, and of one stream of it: the others say where its members begin."""
    for group, other in zip(drawn(stream), spoken(stream, way), strict=True):
        for kept in ("main", "branch"):
            found, expected = (Members.of([r for r in all_ if r.stream == kept], all_) for all_ in (other, group))
            together = [m.families_G[:, None] == m.families_G for m in (found, expected)]
            assert np.array_equal(*together)
            if not found.size:
                continue
            zeros = np.zeros(found.size, np.int64)  # the numbers of families mean nothing
            assert str(parts(replace(found, families_G=zeros))) == str(parts(replace(expected, families_G=zeros)))


@pytest.mark.parametrize("prefix", ["mask", "count_once", "repeat"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_observed_changes_no_credit(case: Case, prefix: PrefixPolicy) -> None:
    for chain, stream in itertools.product(chains(case.component), ("main", "branch")):
        groups = drawn(stream)
        expected = assigned(chain, groups, prefix)
        for way in WAYS.values():
            assert_same_credit(assigned(chain, spoken(stream, way), prefix), expected)
        beside = assigned(chain, [[*group, listener(group, 100.0)] for group in groups], prefix)
        assert_same_credit(beside, expected)
        assert {group.rollouts[-1].unused for group in beside.groups} == {"no tokens"}


def test_the_groups_hold_what_the_rules_are_about() -> None:
    groups = spoken("main", WAYS["anywhere"])
    rollouts = [r for group in groups for r in group]
    assert any(r.parent and r.trainable_T is not None and not r.trainable_T[0] for r in rollouts if len(r.token_ids))
    assert any(not r.trainable_T[-1] for r in rollouts if r.trainable_T is not None and len(r.token_ids))
    assert any(r.trainable_T is not None and r.trainable_T[:1].all() and len(r.token_ids) > 3 for r in rollouts)
    assert any(len(r.token_ids) and not r.trainable_tokens for r in rollouts), "some only observe"
    assert any(r.branch_at and 9 in r.prefix_ids for r in rollouts), "some branch behind what was said"
