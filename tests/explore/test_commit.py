"""Pilot-Commit: whom a pilot commits to, when new problems are tried, and which are passed over afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.explore import Commit, Refill, Uniform
from outrider.record import Context, Group, Outcome, SampleRequest
from outrider.testing.scripted import POOL, ScriptedRun
from outrider.testing.situations import Situation, always, by_rate
from scripted import batch, group, members, view


def run(*stages, problems=6, ending=by_rate, **rest) -> ScriptedRun:
    return ScriptedRun(stages, Situation(problems, Uniform, ending), **rest)


def kept(groups: Sequence[Group]) -> list[Group]:
    return [g for g in groups if not any(r.unused for r in g.rollouts)]


def reasons(groups: Sequence[Group]) -> list[str]:
    return [g.rollouts[0].unused for g in groups]


# Whom a pilot commits to


@given(st.text("01e", min_size=1, max_size=20), st.integers(0, 8), st.integers(0, 8))
def test_a_pilot_within_the_band_beginning_and_end_included_is_committed_to(endings, low, width):
    high = min(8, low + width)
    stage = Commit(n=5, low=low / 8, high=high / 8)
    [found] = [group(endings)]
    counted = endings.replace("e", "")
    rate = Fraction(counted.count("1"), len(counted)) if counted else None
    asked = stage.plan(view([found]))
    assert bool(asked) == (rate is not None and Fraction(low, 8) <= rate <= Fraction(high, 8))
    dropped = stage.drop([found])
    assert bool(dropped) != bool(asked)
    if dropped:
        wanted = "unscorable" if rate is None else "too hard" if rate < Fraction(low, 8) else "too easy"
        assert dropped == {found.id: f"commit: {wanted}"}


@pytest.mark.parametrize("n", range(1, 31))
def test_rates_that_are_the_ends_of_the_band_as_a_recipe_writes_them_are_within(n):
    """A tenth of ten, or seven tenths of thirty: as decimals, which have no exact double."""
    for successes in range(n + 1):
        rate = Fraction(successes, n)
        for tenths in (1, 3, 7):
            stage = Commit(low=tenths / 10, high=tenths / 10)
            endings = "1" * successes + "0" * (n - successes)
            assert (stage.fate(group(endings)) == "") == (rate == Fraction(tenths, 10))


def test_branches_seeded_rollouts_and_the_greedy_yardstick_are_no_pilot():
    base = group("1000")
    parent = base.rollouts[0]
    base = base.joined(members("111", first=4, parent=parent.id, prefix_ids=parent.token_ids[:1]))
    base = base.joined(members("111", first=7, context=Context("seeded", ("p1",))))
    base = base.joined(members("1", first=10, context=Context(trained="excluded")))
    assert Commit(high=0.25).fate(base) == ""


def test_a_group_is_pilot_and_commitment_together():
    made = run(Uniform(n=4), Commit(n=12, low=0.2, high=0.8))
    for groups in made.steps(3):
        assert {g.size for g in kept(groups)} == {16}
        assert {g.size for g in groups if g not in kept(groups)} == {4}


# The target


def test_new_problems_are_tried_until_the_target_is_met():
    made = run(Uniform(n=8), Commit(n=3, target=6, low=0.1, high=0.9))
    for _ in range(4):
        groups = made.next()
        assert len(kept(groups)) == 6
        assert {g.size for g in kept(groups)} == {8 + 3}
        numbers = made.stage.observe([])
        assert numbers["problems"] == len(groups) - 6
        assert numbers["missing"] == 0.0
        assert numbers["committed"] == 6.0
        for key in ("too_easy", "too_hard", "unscorable", "surplus"):
            assert numbers[key] == reasons(groups).count(f"commit: {key.replace('_', ' ')}")


def test_attempts_that_are_used_up_leave_what_there_is():
    made = run(Uniform(n=4), Commit(target=2, attempts=2), ending=always(Outcome.INCORRECT))
    groups = made.next()
    # nothing within: 2 (6 + 2) / 1 = 16 are expected, but a round takes no more than the step began with
    assert len(groups) == 6 + 6 + 6
    assert set(reasons(groups)) == {"commit: too hard"}
    assert made.stage.observe([])["missing"] == 2.0


def test_the_surplus_is_drawn_by_lot_whatever_the_order():
    groups = batch(*["10"] * 20)
    drawn = []
    for order in (groups, groups[::-1]):
        stage = Commit(target=5)
        asked = {r.problem.id for r in stage.plan(view(order))}
        assert len(asked) == 5
        assert set(stage.drop(order).values()) == {"commit: surplus"}
        drawn.append(asked)
    assert drawn[0] == drawn[1] != {p.id for p in POOL[:5]}
    other = Commit(target=5)
    assert {r.problem.id for r in other.plan(view(groups, seed=4))} != drawn[0]


def test_without_a_target_no_new_problems_are_tried():
    made = run(Uniform(n=4), Commit())
    assert [len(groups) for groups in made.steps(3)] == [6, 6, 6]


def test_what_an_earlier_stage_excluded_is_neither_tried_nor_dropped_again():
    made = run(Uniform(n=4), Refill(attempts=0), Commit(low=0.0, high=1.0))
    groups = made.next()
    assert {r for r in reasons(groups) if r} == {"refill: solved", "refill: unsolved"}
    assert made.stage.observe([])["committed"] == len(kept(groups))


# Eviction


def solved_by_some(request: SampleRequest, member: int) -> Outcome:
    return Outcome.CORRECT if int(request.problem.id[1:]) % 4 == 0 else by_rate(request, member)


def test_a_problem_that_was_solved_throughout_is_passed_over():
    pool = POOL[:16]
    made = run(Uniform(n=4), Commit(n=2), ending=solved_by_some, train=lambda i: pool[i % 16], problems=4)
    met = [g.problem.id for groups in made.steps(12) for g in groups]
    assert [met.count(f"p{i}") for i in (0, 4, 8, 12)] == [1, 1, 1, 1]
    assert made.stage.observe([])["evicted"] >= 4


def test_a_pool_that_is_evicted_whole_comes_round_again():
    pool = POOL[:8]
    made = run(Uniform(n=2), Commit(), ending=always(Outcome.CORRECT), train=lambda i: pool[i % 8], problems=4)
    assert [len(groups) for groups in made.steps(2)] == [4, 4]
    assert made.metrics["explore/1-commit/recalled"] == 0.0
    assert len(made.next()) == 4
    numbers = [made.metrics[f"explore/1-commit/{name}"] for name in ("evicted", "refused", "recalled")]
    assert numbers == [8.0, 8.0, 4.0]
    assert made.stage.observe([])["refused"] == 0.0, "of each step alone"


def test_an_evicted_problem_stays_away_where_two_epochs_meet_in_a_step():
    """Each epoch has another order, so a problem may come up twice within a step while there are many others."""
    orders = [np.random.default_rng(epoch).permutation(32) for epoch in range(20)]
    made = run(
        Uniform(n=4),
        Commit(n=2),
        ending=lambda request, member: Outcome.CORRECT if int(request.problem.id[1:]) % 2 else by_rate(request, member),
        train=lambda i: POOL[orders[i // 32][i % 32]],
        problems=6,
    )
    met = [g.problem.id for groups in made.steps(30) for g in groups]
    assert {met.count(f"p{i}") for i in range(1, 32, 2)} == {1}


@pytest.mark.parametrize(
    ("endings", "evicted"), [("11", True), ("1e1", True), ("1", False), ("1e", False), ("10", False)]
)
def test_who_is_evicted(endings, evicted):
    stage = Commit()
    stage.observe([group(endings)])
    assert stage.state_dict() == {"evicted": ["p0"] * evicted}
    assert stage.admits(POOL[0], step=2) != evicted
    kept_in = Commit(evict=False)
    kept_in.observe([group(endings)])
    assert kept_in.admits(POOL[0], step=2)


# What is refused


def test_a_band_that_no_pilot_can_be_in_is_refused():
    with pytest.raises(ValidationError, match=r"low is 0.8, above high, which is 0.75"):
        Commit(low=0.8)
    for stages, says in (
        ("[{commit: {n: 8}}]", "commit needs pilot rollouts and cannot be the first stage"),
        ("[{uniform: {n: 1}}, {commit: {n: 8}}]", "a pilot of n=1 cannot have a pass rate between 0.125 and 0.75"),
        ("[{uniform: {n: 4}}, {commit: {low: 0.3, high: 0.4}}]", "a pilot of n=4 cannot have a pass rate between"),
    ):
        with pytest.raises(UserError, match=says):
            load_recipe("grpo", [f"explore={stages}"])
    with pytest.raises(UserError, match="no problem has any: put uniform before it"):
        Commit().plan(view(batch("", "")))
