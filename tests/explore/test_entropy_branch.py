"""Entropy-adaptive branching: who divides, where and how often, by the formula and by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.explore import EntropyBranch, Surroundings, Uniform, View
from outrider.record import Group, Problem, Rollout, SampleRequest, correct
from outrider.testing.scripted import ScriptedEngine, ScriptedRun
from outrider.testing.situations import Ragged, Situation, by_rate
from scripted import LONG

EVERY = {"chunk": {"tokens": 1}}
THREE = {"chunk": {"tokens": 3}}


def rollout(
    member: int, entropies: Sequence[float], parent: Rollout | None = None, at: int = 0, **rest: Any
) -> Rollout:
    return Rollout(
        problem_id="p",
        group_id="g",
        member=member,
        prompt_ids=np.array([1, 2], np.int32),
        token_ids=np.arange(len(entropies), dtype=np.int32) + 100 * member,
        logprobs_T=np.zeros(len(entropies), np.float32),
        prefix_ids=np.zeros(0, np.int32) if parent is None else parent.response_ids[:at],
        parent=None if parent is None else parent.id,
        **{"entropies_T": np.array(entropies, np.float32), **rest},
    ).verified(correct(), 1.0)


def view(*members: Rollout, round: int = 0, step: int = 2, seed: int = 0) -> View:
    groups = [Group(Problem("p", ""), "g", members)]
    return View(groups, step, round, 0.0, lambda n: [], ScriptedEngine(), seed, LONG)


def places(requests: Sequence[SampleRequest]) -> list[tuple[str | None, int, int]]:
    return [(r.prefix and r.prefix.parent, r.prefix.branch_at if r.prefix else 0, r.n) for r in requests]


def test_a_path_divides_where_its_entropy_has_risen():
    """Boundaries at 3 and 6; two tokens count: 1 at the start, then 0.5, then 2. Only the second is a rise."""
    one = rollout(0, [1, 1, 9, 0.5, 0.5, 9, 2, 2, 9])
    stage = EntropyBranch(segment=THREE, tokens=2, alpha=0.0, beta=1.0, threshold=0.9, total=5)
    assert places(stage.plan(view(one))) == [("g/0", 6, 1)]
    assert stage.observe([])["rise"] == 1.0
    stage = EntropyBranch(segment=THREE, tokens=2, alpha=0.0, beta=1.0, threshold=1.0, total=5)
    assert places(stage.plan(view(one))) == [(None, 0, 4)]  # above, not at
    assert math.isnan(stage.observe([])["rise"])


def test_boundaries_are_taken_one_by_one_and_branches_join_in():
    one = rollout(0, [0] * 9)
    stage = EntropyBranch(segment=THREE, alpha=1.0, total=6)
    assert places(stage.plan(view(one))) == [("g/0", 3, 1)]
    two = rollout(1, [0] * 6, one, 3)
    assert sorted(places(stage.plan(view(one, two, round=1)))) == [("g/0", 6, 1), ("g/1", 6, 1)]
    three, four = rollout(2, [0] * 3, one, 6), rollout(3, [0], two, 6)
    assert places(stage.plan(view(one, two, three, four, round=2))) == [(None, 0, 2)]
    five, six = rollout(4, [0] * 9), rollout(5, [0] * 9)
    assert stage.plan(view(one, two, three, four, five, six, round=3)) == []
    assert [stage.observe([])[key] for key in ("pivots", "branches", "from_prompt")] == [3, 3, 2]


def test_the_entropy_of_a_branch_is_compared_with_its_root_and_read_behind_its_own_boundary():
    root = rollout(0, [2, 2, 0, 0, 0, 0, 0])
    child = rollout(1, [5, 5, 5, 8, 8, 8], root, 3)  # at 6, so after three own tokens: 8
    stage = EntropyBranch(segment=THREE, tokens=2, alpha=0.0, beta=1.0, threshold=5.9, total=9)
    assert places(stage.plan(view(root, child))) == [("g/1", 6, 1)]  # 8 - 2
    stage = EntropyBranch(segment=THREE, tokens=2, alpha=0.0, beta=1.0, threshold=6.0, total=9)
    assert places(stage.plan(view(root, child))) == [(None, 0, 7)]


def test_turns_read_only_what_was_sampled():
    """Turns begin at 3 and 6. Observed tokens carry entropies that would say the opposite."""
    seen = np.array([True, True, False, True, True, False, True, False, True])
    one = rollout(0, [1, 1, 50, 0, 0, 50, 4, 0, 4], trainable_T=seen)
    stage = EntropyBranch(tokens=2, alpha=0.0, beta=1.0, threshold=2.9, total=9)
    assert places(stage.plan(view(one))) == [("g/0", 6, 1)]


@pytest.mark.parametrize(("rise", "chance"), [(0.0, 0.5), (1.0, 0.75), (-1.0, 0.25), (9.0, 1.0), (-9.0, 0.0)])
def test_without_a_threshold_a_path_divides_with_that_chance(rise, chance):
    one = rollout(0, [10, 10 + rise])
    stage = EntropyBranch(segment=EVERY, tokens=1, beta=0.25, total=9)
    divided = sum(places(stage.plan(view(one, seed=s)))[0][0] is not None for s in range(1000))
    assert divided == pytest.approx(1000 * chance, abs=5 * math.sqrt(1000 * chance * (1 - chance)))


@settings(max_examples=60, deadline=None)
@given(
    initial=st.integers(1, 6),
    more=st.integers(1, 9),
    branches=st.integers(1, 4),
    threshold=st.sampled_from([None, -1.0, 0.5, 5.0]),
    segment=st.sampled_from([EVERY, THREE, "turns", {"delimiter": {"marks": ["\n\n"]}}]),
    seed=st.integers(0, 2**30),
)
def test_every_problem_ends_with_the_total_exactly(initial, more, branches, threshold, segment, seed):
    total = max(2, initial + more)
    stage = EntropyBranch(segment=segment, tokens=2, branches=branches, threshold=threshold, total=total)
    run = ScriptedRun([Uniform(n=initial), stage], Situation(4, Ragged, by_rate), seed=seed)
    for _ in range(2):
        groups = run.next()
        assert [g.size for g in groups] == [total] * 4
        new = [r for g in groups for r in g.rollouts if r.stage == run.name]
        metrics = run.stage.observe([])
        assert metrics["branches"] == sum(r.parent is not None for r in new)
        assert metrics["from_prompt"] == sum(r.parent is None for r in new)
        siblings = Counter((r.parent, r.branch_at) for r in new if r.parent is not None)
        assert metrics["pivots"] == len(siblings)
        assert all(n <= branches for n in siblings.values())
        if threshold == 5.0:  # never reached: alpha + beta * 3 nats is below
            assert metrics["branches"] == 0


def test_paths_compete_for_the_last_places_by_lot():
    members = [rollout(m, [0, 0]) for m in range(4)]
    stage = EntropyBranch(segment=EVERY, alpha=1.0, total=6)
    won = Counter(parent for s in range(300) for parent, _, _ in places(stage.plan(view(*members, seed=s))))
    assert all(won[f"g/{m}"] == pytest.approx(150, abs=45) for m in range(4))
    stage = EntropyBranch(segment=EVERY, alpha=1.0, branches=4, total=7)
    assert places(stage.plan(view(*members)))[0][2] == 3  # what fits


def test_degenerate_groups():
    stage = EntropyBranch(segment=EVERY, total=4)
    assert places(stage.plan(view())) == [(None, 0, 4)]
    assert places(stage.plan(view(rollout(0, [])))) == [(None, 0, 3)]
    assert stage.plan(view(rollout(0, [1, 1]).excluded("refill: unsolved"))) == []
    one_left = [rollout(0, [1, 1]).excluded("seen"), rollout(1, [1, 9], trainable_T=np.array([True, True]))]
    always = EntropyBranch(segment=EVERY, alpha=1.0, total=4)
    assert places(always.plan(view(*one_left))) == [("g/1", 1, 1)]


def test_what_cannot_be_is_said():
    full = [rollout(m, [1, 1]) for m in range(4)]
    stage = EntropyBranch(segment=EVERY, total=4)
    with pytest.raises(ValueError, match=r"total is 4 rollouts of a problem, but the stages before it draw 4"):
        stage.check(Surroundings([Uniform(n=4)], 1, 64, ["main"], "countdown"))
    assert stage.plan(view(*full)) == []  # it may happen all the same, if another stage gives some problems more
    with pytest.raises(UserError, match="needs the entropy of every token"):
        EntropyBranch(segment=EVERY, total=6).plan(view(rollout(0, [1, 1], entropies_T=None)))
