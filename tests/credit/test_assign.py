"""From a step's groups to training rows, and from rows to optimizer batches: nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forests import rollout
from outrider.arrays import Floats
from outrider.credit import GroupMean, Members, Shaper
from outrider.credit.assign import Assigned, assign
from outrider.credit.siblings_mean import SiblingsMean
from outrider.learn.batching import cut_by_group
from outrider.objective.options import ObjectiveOptions
from outrider.objective.weights import token_weights
from outrider.record import Context, Group, Problem, Rollout, correct

PLAIN_PROMPT = np.array([7, 7], np.int32)


def group(name: str, rollouts: list[Rollout]) -> Group:
    return Group(Problem(name, ""), name, tuple(rollouts))


def assigned(groups: list[Group], **chains: list) -> Assigned:
    return assign(groups, chains or {"main": [GroupMean(std=False)]}, 1, False, lambda problem: PLAIN_PROMPT)


def named(name: str, member: int, reward: float, parent: Rollout | None = None, **rest: object) -> Rollout:
    made = rollout(member, [True] * 3, parent, 2 if parent else 0, **rest)
    return made._with(problem_id=name, group_id=name, reward=reward)


def deep(name: str, branches: int) -> Group:
    """Two roots, and branches of the failed one in a stream of their own, the first of them right."""
    roots = [named(name, 0, 1.0), named(name, 1, 0.0)]
    rewards = [1.0] + [0.0] * (branches - 1)
    return group(name, roots + [named(name, 2 + k, rewards[k], roots[1], stream="branch") for k in range(branches)])


# Two streams in one optimizer batch


@given(
    branches=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    minibatches=st.integers(1, 12),
    aggregate=st.sampled_from(["token_mean", "sequence_mean", "constant"]),
)
def test_a_stream_smaller_than_a_minibatch_is_never_lost(branches: list[int], minibatches: int, aggregate: str) -> None:
    """Batches are cut by groups: a stream's only row is in one of them, at the full weight of its stream."""
    groups = [deep(f"g{i}", n) for i, n in enumerate(branches)]
    rows = assigned(groups, main=[GroupMean(std=False)], branch=[SiblingsMean()]).rows
    assert len(rows) == sum(g.size for g in groups)
    options = ObjectiveOptions(
        aggregate=aggregate if aggregate != "constant" else {"constant": {"length": 3}},
        streams={"main": 1.0, "branch": 0.5},
    )
    batches = cut_by_group(rows, minibatches)
    assert sorted(id(row) for batch in batches for row in batch) == sorted(map(id, rows))
    for batch in batches:
        weights = token_weights(batch, options, 3)
        for stream in {row.stream for row in batch}:
            total = sum(
                np.sum(w * row.trainable_N) for w, row in zip(weights, batch, strict=True) if row.stream == stream
            )
            assert total == pytest.approx(options.streams[stream])  # whatever the stream's size


def test_each_stream_has_its_own_chain() -> None:
    found = assigned([deep("g", 2)], main=[GroupMean(std=False)], branch=[SiblingsMean()])
    assert [(row.stream, row.advantages_N.tolist()) for row in found.rows] == [
        ("main", [0.5] * 3),
        ("main", [-0.5] * 3),
        ("branch", [0.5] * 3),
        ("branch", [-0.5] * 3),
    ]
    assert found.rows[2].context_ids.tolist() == [1, 10, 11]  # the prompt, and what was kept of the failed root


class Ramp(Shaper):
    """The advantage of the t-th trainable token of the path is multiplied by t, from 1."""

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        return [a * np.arange(1, len(a) + 1) for a in advantages_GT]


def test_advantages_that_differ_within_a_rollout_are_kept_by_own_token() -> None:
    seen = np.array([True, False, True])
    made = group("g", [named("g", 0, 1.0), replace(named("g", 1, 0.0), trainable_T=seen), named("g", 2, 0.5)])
    first, second, third = assigned([made], main=[GroupMean(std=False), Ramp()]).groups[0].rollouts
    assert first.advantages_T is not None
    assert first.advantages_T.tolist() == [0.5, 1.0, 1.5]
    assert second.advantages_T is not None
    assert second.advantages_T.tolist() == [-0.5, 0.0, -1.0]
    assert (first.advantage, second.advantage) == (1.0, -0.75)
    assert third.advantages_T is None  # one number, 0, says all
    plain = assigned([made]).groups[0].rollouts
    assert [(one.advantage, one.advantages_T) for one in plain] == [(0.5, None), (-0.5, None), (0.0, None)]


def test_of_a_path_that_is_trained_as_a_whole_a_rollout_keeps_its_own_end() -> None:
    root, failed = named("g", 0, 1.0), named("g", 1, 0.0)
    branch = named("g", 2, 1.0, failed)  # keeps two tokens of its parent and draws three
    chains = {"main": [GroupMean(std=False), Ramp()]}
    found = assign([group("g", [root, failed, branch])], chains, 1, False, lambda p: PLAIN_PROMPT, "repeat")
    own = found.groups[0].rollouts[2].advantages_T
    assert own is not None
    assert own.tolist() == pytest.approx([(1 / 3) * t for t in (3, 4, 5)])


def test_a_row_says_what_its_rollout_came_to() -> None:
    """For components of the objective that ask: a KL on failures alone, say."""
    right = named("a", 0, 0.0).verified(correct(), 0.5)  # success is the verdict, whatever its score
    rows = assigned([group("a", [right, named("a", 1, 0.75)])]).rows
    assert [(row.success, row.reward) for row in rows] == [(True, 0.5), (False, 0.75)]


def test_a_stream_without_a_chain_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rollouts of stream 'branch' have no credit chain \(\['main'\]\)"):
        assigned([deep("g", 1)], main=[GroupMean()])


# What becomes no row


def test_rows_of_dropped_groups_do_not_exist_and_their_reason_stays() -> None:
    mixed = group("kept", [named("kept", 0, 1.0), named("kept", 1, 0.0)])
    dropped = group("dropped", [named("dropped", 0, 1.0), named("dropped", 1, 1.0)]).excluded("solved by all")
    found = assigned([dropped, mixed])
    assert [row.group for row in found.rows] == ["kept"] * 2
    assert [r.unused for g in found.groups for r in g.rollouts] == ["solved by all"] * 2 + [""] * 2
    assert token_weights(found.rows, ObjectiveOptions(), 3).tolist() == [1 / 6] * 2  # nor do they in denominators


def test_an_excluded_context_counts_in_the_baseline_and_nowhere_else() -> None:
    seeded = Context("seeded", ("other",), "excluded")
    found = assigned([group("g", [named("g", 0, 1.0, context=seeded), named("g", 1, 0.0), named("g", 2, 0.5)])])
    assert [row.advantages_N[0] for row in found.rows] == [-0.5, 0.0]
    assert [r.unused for r in found.groups[0].rollouts] == ["excluded context", "", "no advantage"]
    assert found.groups[0].rollouts[0].advantage == 0.5


def test_a_rollout_trained_after_the_plain_prompt_gets_it() -> None:
    original = Context("seeded", ("other",), "original")
    found = assigned([group("g", [named("g", 0, 1.0, context=original), named("g", 1, 0.0)])])
    assert [row.context_ids.tolist() for row in found.rows] == [[7, 7], [1]]


def test_a_step_without_groups_and_a_group_without_rollouts_are_ordinary() -> None:
    assert assigned([]) == Assigned([], [])
    empty = group("g", [])
    assert assigned([empty]) == Assigned([], [empty])
    for policy in ("mask", "count_once", "repeat"):
        assert assign([empty], {"main": [GroupMean()]}, 1, False, lambda p: PLAIN_PROMPT, policy).rows == []


def test_groups_of_one_name_do_not_mix() -> None:
    """Advantages are kept by group, so even rollouts whose ids repeat cannot take each other's."""
    first = group("g", [named("g", 0, 1.0), named("g", 1, 0.0)])
    second = group("g", [named("g", 0, 0.0), named("g", 1, 0.0)])
    assert [[r.advantage for r in g.rollouts] for g in assigned([first, second]).groups] == [[0.5, -0.5], [0.0, 0.0]]
