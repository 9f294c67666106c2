"""The branch stage: whom it branches, how often, what it asks for and what it learns."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Branch, Stage, Uniform, View
from outrider.explore.branch import by_accuracy, outcomes
from outrider.record import (
    Context,
    Group,
    Outcome,
    Problem,
    Rollout,
    SampleRequest,
    StopReason,
    Verdict,
    correct,
    incorrect,
)
from outrider.testing.scripted import ScriptedEngine, ScriptedRun
from outrider.testing.situations import Ragged, Situation, always, by_rate, with_errors
from scripted import LONG

EVERY = {"chunk": {"tokens": 1}}
PROBLEM = Problem("p", "")


def rollout(member: int, length: int = 10, success: bool | None = False, **rest: Any) -> Rollout:
    """``success`` None is a verifier's error."""
    made = Rollout(
        problem_id="p",
        group_id="g",
        member=member,
        prompt_ids=np.array([1, 2], np.int32),
        token_ids=np.arange(length, dtype=np.int32) + 100 * member,
        logprobs_T=-np.arange(length, dtype=np.float32),
        **{"prefix_ids": np.zeros(0, np.int32), **rest},
    )
    if success is None:
        return made.verified(Verdict(Outcome.ERROR, math.nan), math.nan)
    return made.verified(correct() if success else incorrect(), float(success))


def branch_of(parent: Rollout, at: int, member: int, length: int = 4, **rest: Any) -> Rollout:
    return rollout(member, length, prefix_ids=parent.response_ids[:at], parent=parent.id, **rest)


def group(*rollouts: Rollout) -> Group:
    return Group(PROBLEM, "g", rollouts)


def view(*groups: Group, round: int = 0, step: int = 1, seed: int = 0) -> View:
    return View(list(groups), step, round, 0.0, lambda n: [], ScriptedEngine(), seed, LONG)


def asked(stage: Branch, *groups: Group, **rest: Any) -> list[tuple[str | None, int, int]]:
    """Parent, branch point and number of each request."""
    plan = stage.plan(view(*groups, **rest))
    return [(r.prefix and r.prefix.parent, r.prefix.branch_at if r.prefix else 0, r.n) for r in plan]


# Whom it branches


def test_failed_rollouts_are_branched_and_no_others():
    members = [rollout(0), rollout(1, success=True), rollout(2, success=None), rollout(3).excluded("skip: seen")]
    stage = Branch(segment=EVERY)
    assert [(parent, n) for parent, _, n in asked(stage, group(*members))] == [("g/0", 8)]
    everyone = asked(Branch(which="all", segment=EVERY), group(*members))
    assert [parent for parent, _, _ in everyone] == ["g/0", "g/1", "g/2"]


def test_success_is_the_verdict_and_not_the_reward():
    shaped = [rollout(0).verified(incorrect(), 1.0), rollout(1).verified(correct(), -1.0)]
    assert [parent for parent, _, _ in asked(Branch(segment=EVERY), group(*shaped))] == ["g/0"]


def test_what_is_excluded_from_training_is_not_branched_but_counted():
    """A branch has its parent's context, so it would be paid for and never trained."""
    seeded = rollout(1, context=Context("seeded", ("a",), "excluded"))
    dropped = rollout(2, context=Context("seeded", ("a",), "excluded")).excluded("refill: solved")
    stage = Branch(segment=EVERY)
    assert [parent for parent, _, _ in asked(stage, group(rollout(0), seeded, dropped))] == ["g/0"]
    assert stage.observe([])["excluded"] == 1
    for trained in ("as_generated", "original"):
        members = [rollout(0), rollout(1, context=Context("seeded", ("a",), trained))]
        assert [parent for parent, _, _ in asked(stage, group(*members))] == ["g/0", "g/1"]
        assert stage.observe([])["excluded"] == 0


def test_truncated_rollouts_have_failed_and_may_be_branched():
    cut = rollout(0, stop=StopReason.LENGTH)
    assert cut.truncated
    assert [(parent, n) for parent, _, n in asked(Branch(segment=EVERY), group(cut, rollout(1, success=True)))] == [
        ("g/0", 8)
    ]


def test_by_accuracy_takes_as_many_as_the_paper_says():
    """n = 6: the released table, 0 to 6 correct; the smaller side is always among them, whole."""
    for solved, wanted in enumerate([6, 6, 5, 4, 4, 3, 3]):
        roots = [rollout(m, success=m < solved) for m in range(6)]
        for seed in range(20):
            chosen = {r.member for r in by_accuracy(roots, seed)}
            assert len(chosen) == wanted
            few = set(range(solved)) if solved < 3 else set(range(solved, 6))
            assert few <= chosen or solved in (0, 6)
    assert by_accuracy([], 0) == []


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_the_minority_always_fits(successes):
    roots = [rollout(m, success=s) for m, s in enumerate(successes)]
    chosen = by_accuracy(roots, 3)
    assert len({r.id for r in chosen}) == len(chosen)
    assert len(chosen) == math.ceil(len(roots) * math.exp(-sum(successes) / len(roots)))
    for kind in (True, False):
        if 2 * successes.count(kind) < len(successes):
            assert sum(r.success == kind for r in chosen) == successes.count(kind)


def test_who_of_the_majority_is_drawn():
    roots = [rollout(m, success=m > 0) for m in range(6)]  # three of six: the failure and two of the five
    drawn = Counter(r.member for seed in range(500) for r in by_accuracy(roots, seed))
    assert drawn[0] == 500
    assert all(drawn[m] == pytest.approx(200, abs=60) for m in range(1, 6))


def test_descendants_of_a_chosen_root_count_with_it():
    roots = [rollout(m, success=True) for m in range(6)]
    stage = Branch(which="by_accuracy", segment=EVERY, branches=1, rounds=2)
    first = {parent for parent, _, _ in asked(stage, group(*roots))}
    assert len(first) == 3
    children = [branch_of(r, 5, 6 + r.member) for r in roots]
    second = {parent for parent, _, _ in asked(stage, group(*roots, *children), round=1)}
    assert second == first | {f"g/{6 + int(parent[2:])}" for parent in first}


# How often


@pytest.mark.parametrize("select", ["utility", "attention", "root"])
@given(st.lists(st.integers(1, 9), max_size=5), st.integers(1, 4), st.integers(1, 5))
def test_every_rollout_gets_what_it_has_cuts_for_and_never_more(select, lengths, pivots, branches):
    members = [rollout(m, length) for m, length in enumerate(lengths)]
    stage = Branch(segment=EVERY, select=select, pivots=pivots, branches=branches)
    given_to: Counter[str] = Counter()
    for request in stage.plan(view(group(*members))):
        parent = request.prefix.parent if request.prefix else "the prompt"
        given_to[parent] += request.n
    if select == "root":
        assert given_to.total() == pivots * branches * len(lengths)
        return
    expected = {r.id: branches * min(pivots, length - 1) for r, length in zip(members, lengths, strict=True)}
    assert given_to == Counter({key: n for key, n in expected.items() if n})
    metrics = stage.observe([])
    assert metrics["branches"] == branches * metrics["pivots"] == given_to.total()
    assert metrics["no_candidate"] == lengths.count(1)


def test_all_solved_and_nothing_at_all_ask_for_nothing():
    stage = Branch(segment=EVERY)
    assert asked(stage, group(rollout(0, success=True)), group()) == []
    assert asked(stage) == []
    assert stage.observe([])["no_candidate"] == 0


@pytest.mark.parametrize("length", [0, 1, 50])
def test_a_failure_without_a_proper_cut_is_counted(length):
    stage = Branch()  # chunks of 50: the end of a response is no cut
    assert asked(stage, group(rollout(0, length))) == []
    assert stage.observe([])["no_candidate"] == (length > 0)  # a response of no tokens cannot fail
    assert asked(Branch(), group(rollout(0, 51))) == [("g/0", 50, 8)]


def test_a_round_too_many_asks_for_nothing_and_a_pivot_is_branched_once():
    members = [rollout(0, 4)]
    stage = Branch(segment=EVERY, branches=1, rounds=3)
    for round in range(3):
        [(parent, at, n)] = asked(stage, group(*members), round=round)
        assert (parent, n) == ("g/0", 1)
        members.append(branch_of(members[0], at, len(members), length=1))
    assert sorted(m.branch_at for m in members[1:]) == [1, 2, 3]
    assert asked(stage, group(*members), round=3) == []
    assert stage.observe([])["branches"] == 3


@given(st.lists(st.integers(2, 9), min_size=1, max_size=6), st.integers(3, 30), st.integers(1, 3))
def test_the_cap_holds_and_keeps_siblings_together(lengths, cap, pivots):
    groups = [Group(Problem(f"p{i}", ""), f"g{i}", (_named(f"g{i}", length),)) for i, length in enumerate(lengths)]
    stage = Branch(segment=EVERY, pivots=pivots, branches=3, cap=cap)
    free = asked(Branch(segment=EVERY, pivots=pivots, branches=3), *groups)
    kept = asked(stage, *groups)
    assert set(kept) <= set(free)
    assert all(n == 3 for _, _, n in kept)
    assert sum(n for _, _, n in kept) == min(cap // 3 * 3, 3 * len(free))
    assert stage.observe([])["capped"] == 3 * (len(free) - len(kept))
    assert set(asked(stage, *reversed(groups))) == set(kept)


def _named(group_id: str, length: int) -> Rollout:
    one = rollout(0, length)
    object.__setattr__(one, "group_id", group_id)
    return one


def test_the_cap_is_of_the_whole_step():
    stage = Branch(segment=EVERY, branches=2, rounds=2, cap=5)
    root = rollout(0)
    [(_, at, _)] = asked(stage, group(root))
    children = [branch_of(root, at, m) for m in (1, 2)]
    assert sum(n for _, _, n in asked(stage, group(root, *children), round=1)) == 2
    assert [stage.observe([])[key] for key in ("branches", "capped")] == [4, 4]
    assert len(asked(stage, group(root))) == 1  # the next step begins anew


def test_nobody_is_preferred_by_the_cap():
    groups = [Group(Problem(f"p{i}", ""), f"g{i}", (_named(f"g{i}", 9),)) for i in range(4)]
    stage = Branch(segment=EVERY, branches=2, cap=4)
    kept = Counter(parent for seed in range(300) for parent, _, _ in asked(stage, *groups, seed=seed))
    assert all(kept[f"g{i}/0"] == pytest.approx(150, abs=45) for i in range(4))


def test_a_cap_below_one_pivot_is_refused():
    with pytest.raises(ValidationError, match=r"cap \(4\) is below branches \(8\)"):
        Branch(cap=4)


# What it asks for


def test_a_branch_keeps_the_context_of_its_parent():
    seeded = Context("seeded", ("p3",), "original")
    parent = rollout(0, context=seeded)
    for select in ("utility", "root"):
        [request] = Branch(segment=EVERY, select=select).plan(view(group(parent)))
        assert request.context == seeded
        assert request.prompt_ids.tolist() == [1, 2]
        assert request.stream == "branch"
        assert request.params is None
    [request] = Branch(segment=EVERY, select="root", stream="main").plan(view(group(parent)))
    assert (request.prefix, request.stream) == (None, "main")


def test_a_prefix_is_the_path_from_the_first_token():
    root = rollout(0, success=True)
    child = branch_of(root, 4, 1, length=6)
    [request] = Branch(segment={"chunk": {"tokens": 7}}).plan(view(group(root, child)))
    assert request.prefix.parent == "g/1"
    assert request.prefix.ids.tolist() == [0, 1, 2, 3, 100, 101, 102]
    assert request.prefix.ids.dtype == np.int32


def test_the_tree_grows_from_branches_too():
    run = ScriptedRun(
        [Uniform(n=2), Branch(which="all", segment=EVERY, select="surprisal", branches=2, rounds=3)], _situation()
    )
    depths = Counter()
    for groups in run.steps(4):
        for g in groups:
            by_id = {r.id: r for r in g.rollouts}
            for r in g.rollouts:
                depth = 0
                while r.parent is not None:
                    r, depth = by_id[r.parent], depth + 1
                depths[depth] += 1
    assert set(depths) == {0, 1, 2, 3}


def _situation(
    problems: int = 6, ending: Callable[[SampleRequest, int], Outcome] = by_rate, before: Any = Ragged
) -> Situation:
    return Situation(problems, before, ending)


def test_boundaries_fill_the_width_as_if_paths_had_divided_while_they_were_written():
    """Two long paths divide at both cuts: 2, 4, 8; short ones leave places to chance."""
    boundary = {"boundary": {"depth": 2, "width": 9}}
    stage = Branch(which="all", segment={"chunk": {"tokens": 2}}, select=boundary, pivots=99, branches=1, rounds=3)
    members = [rollout(0), rollout(1, success=True)]
    for round, (size, cut) in enumerate([(2, 2), (4, 4)]):
        requests = stage.plan(view(group(*members), round=round))
        assert sorted(r.prefix.parent for r in requests) == [f"g/{m}" for m in range(size)]
        assert {r.prefix.branch_at for r in requests} == {cut}
        new = [branch_of(members[int(r.prefix.parent[2:])], cut, size + i, length=9) for i, r in enumerate(requests)]
        members += new
    assert sum(r.n for r in stage.plan(view(group(*members), round=2))) == 1
    assert stage.plan(view(group(*members), round=3)) == []


# What it learns


@pytest.mark.parametrize(("rounds", "short"), [(1, 16 - 4), (2, 16 - 8), (3, 0), (9, 0)])
def test_what_a_width_lacks_is_counted(rounds, short):
    """Two cuts for each path: 2, 4, 8 rollouts; what is left is spent at random cuts in a third round."""
    select = {"boundary": {"depth": 2, "width": 16}}
    stage = Branch(which="all", segment=EVERY, select=select, pivots=16, branches=1, rounds=rounds)
    run = ScriptedRun([Uniform(n=2), stage], Situation(3, Uniform, always(Outcome.INCORRECT)))
    groups = run.next()
    assert [g.size for g in groups] == [16 - short] * 3
    assert run.metrics["explore/1-branch/short"] == 3 * short


def test_outcomes_are_those_of_the_pivots():
    root, other = rollout(0), rollout(1, success=True)
    child = branch_of(root, 4, 2)
    members = [
        root, other, child, branch_of(root, 4, 3, success=True),  # recovered at 4 of 10
        branch_of(root, 8, 4), branch_of(root, 8, 5, success=None),  # not at 8
        branch_of(other, 5, 6),  # a success that was branched in vain
        branch_of(child, 6, 7),  # 6 of the 8 tokens of a branch
        branch_of(root, 9, 8, success=None),  # nothing known
        rollout(9, success=True),  # a new root
    ]  # fmt: skip
    expected = [(0.4, True, True), (0.8, False, True), (0.5, False, False), (0.75, False, True)]
    assert [tuple(o) for o in outcomes([group(*members)])] == expected
    stage = Branch()
    metrics = stage.observe([group(*members)])
    assert metrics["ratio"] == pytest.approx((0.4 + 0.8 + 0.5 + 0.75) / 4)
    assert metrics["recovered"] == pytest.approx(1 / 3)
    assert metrics["outcomes"] == 3, "from a success nothing is recovered"
    metrics = stage.observe([])
    assert math.isnan(metrics["ratio"])
    assert math.isnan(metrics["recovered"])


def test_outcomes_do_not_know_the_order_of_the_problems():
    groups = []
    for i in (2, 0, 1):
        root = _named(f"g{i}", 4 + i)
        child = branch_of(root, 2, 1)
        object.__setattr__(child, "group_id", f"g{i}")
        groups.append(Group(Problem(f"p{i}", ""), f"g{i}", (root, child)))
    assert [o.ratio for o in outcomes(groups)] == [2 / 4, 2 / 5, 2 / 6]


def test_one_estimator_learns_from_step_to_step_and_goes_on_after_a_kill():
    """Recovery that is certain at the front and impossible at the end is learned as a negative slope."""

    def ending(request: SampleRequest, member: int) -> Outcome:
        early = request.prefix is not None and request.prefix.branch_at <= 3
        return Outcome.CORRECT if early else Outcome.INCORRECT

    def stages() -> list[Stage]:
        return [Uniform(n=4), Branch(segment=EVERY, select={"utility": {"gamma": 0.0}}, branches=2)]

    run = ScriptedRun(stages(), _situation(ending=ending))
    run.steps(2)
    state = json.loads(json.dumps(run.explorer.state_dict()))
    assert run.metrics["explore/1-branch/w"] < -1
    new = ScriptedRun(stages(), _situation(ending=ending), step=2)
    new.explorer.load_state_dict(state)
    run.steps(3)
    new.steps(3)
    assert new.plans == run.plans[2:]
    assert new.explorer.state_dict() == run.explorer.state_dict()
    front = [len(branch[1]) <= 3 for plan in run.plans[3:] for _, _, _, branch, *_ in plan]
    before = [len(branch[1]) <= 3 for _, _, _, branch, *_ in run.plans[0]]
    assert np.mean(front) > np.mean(before) + 0.1  # it has moved to where recovery is possible


@pytest.mark.parametrize("ending", [by_rate, with_errors, always(Outcome.CORRECT), always(Outcome.INCORRECT)])
def test_counts_agree_with_what_was_drawn(ending):
    run = ScriptedRun([Ragged(), Branch(segment=EVERY, pivots=2, branches=3, cap=40)], _situation(ending=ending))
    for groups in itertools.islice(iter(run.next, None), 4):
        by_pivot = defaultdict(int)
        for g in groups:
            for r in g.rollouts:
                if r.parent is not None:
                    by_pivot[r.parent, r.branch_at] += 1
        metrics = {key.removeprefix("explore/1-branch/"): value for key, value in run.metrics.items()}
        assert metrics["pivots"] == len(by_pivot)
        assert metrics["branches"] == sum(by_pivot.values()) <= 40
        assert set(by_pivot.values()) <= {3}
