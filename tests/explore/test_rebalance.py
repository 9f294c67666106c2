"""DARS's second round: the schedules against exact fractions, and what the stage counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.credit import GroupMean, Members
from outrider.errors import UserError
from outrider.explore import Rebalance, Uniform
from outrider.explore.rebalance import rollouts_wanted
from outrider.record import Context, Group
from outrider.testing.scripted import POOL, ScriptedRun
from outrider.testing.situations import Situation, by_rate
from scripted import batch, group, members, view


def extras(stage: Rebalance, n: int) -> list[int]:
    """What the stage asks for groups of ``n`` of which 0, 1, …, n succeed."""
    groups = [group("1" * k + "0" * (n - k), POOL[k]) for k in range(n + 1)]
    asked = {r.problem.id: r.n for r in stage.plan(view(groups))}
    return [asked.get(POOL[k].id, 0) for k in range(n + 1)]


# The schedules


@pytest.mark.parametrize(
    ("schedule", "n", "n_max", "expected"),
    [
        # the reference tables of the design, for 0, 1, 2, … of n correct, zeros after
        ("et", 8, 32, [24, 11, 3, 1]),
        ("hw", 8, 32, [24, 24, 8, 3]),
        ("et", 8, 64, [27, 11, 3, 1]),
        ("hw", 8, 64, [56, 24, 8, 3]),
        ("hw", 16, 64, [48, 48, 48, 27, 16, 10, 6, 3]),
        ("et", 16, 32, [16, 16, 16, 11, 6, 3, 2, 1]),
        # 14^2 / 2 is 98 exactly; with the accuracy 1/14 in float32 the ceiling gives 99
        ("hw", 14, 200, [196 - 14, 98 - 14, 49 - 14, 33 - 14, 25 - 14, 20 - 14, 17 - 14]),
        # one rollout: accuracy 0 counts as 1/2
        ("hw", 1, 32, []),
    ],
)
def test_the_reference_table(schedule, n, n_max, expected):
    found = extras(Rebalance(schedule=schedule, n_max=n_max), n)
    assert found == expected + [0] * (n + 1 - len(expected))


@given(st.integers(1, 48).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
@pytest.mark.parametrize("schedule", ["et", "hw"])
def test_without_std_the_count_is_the_least_that_reaches_the_target(schedule, problem):
    """``t S(a) >= target`` in fractions, for the stated count and not for one fewer."""
    n, successes = problem
    a = Fraction(successes, n) if successes else Fraction(1, 2 * n)
    share = 2 * a * (1 - a)
    target = Fraction(n, 2) * (1 if schedule == "et" else 2 * (1 - a))
    wanted = rollouts_wanted(n, successes, schedule)
    if a >= Fraction(1, 2):
        assert wanted == n
    else:
        assert wanted * share >= target > (wanted - 1) * share


@given(st.integers(1, 48).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
@pytest.mark.parametrize("schedule", ["et", "hw"])
def test_with_std_the_count_is_the_least_that_reaches_the_target(schedule, problem):
    """``t 2 sqrt(a (1 - a)) >= target``, both sides squared, so that fractions decide."""
    n, successes = problem
    a = Fraction(successes, n) if successes else Fraction(1, 2 * n)
    square = 4 * a * (1 - a)
    target = n * (1 if schedule == "et" else 2 * (1 - a))
    wanted = rollouts_wanted(n, successes, schedule, std=True)
    if a >= Fraction(1, 2):
        assert wanted == n
    else:
        assert wanted**2 * square >= target**2 > (wanted - 1) ** 2 * square


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        # a = 1/16, 1/8, 1/4, 3/8: 8 / (2 sqrt(a (1 - a))) = 16.52, 12.09, 9.24, 8.26
        ("et", [9, 5, 2, 1]),
        # 8 sqrt((1 - a) / a) = 30.98, 21.17, 13.86, 10.33
        ("hw", [23, 14, 6, 3]),
    ],
)
def test_hand_numbers_with_std(schedule, expected):
    assert extras(Rebalance(schedule=schedule, std=True), 8) == expected + [0] * 5


@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_advantages_of_the_union_sum_to_what_the_schedules_assume(problem):
    """Σ|A| is 2 n u (1 - u) over the whole group: nothing in the credit divides by the group's size."""
    n, successes = problem
    rewards_G = np.array([1.0] * successes + [0.0] * (n - successes))
    found = np.abs(GroupMean(std=False).advantages(Members(rewards_G, rewards_G > 0, np.full(n, 3)))).sum()
    u = successes / n
    assert found == pytest.approx(2 * n * u * (1 - u), rel=1e-12)


# The cap


def test_the_cap_moves_linearly():
    falling = Rebalance(n_max=32, n_max_end=8)
    assert [falling.cap(p) for p in (0.0, 0.25, 0.5, 0.99, 1.0)] == [32, 26, 20, 8, 8]
    # 32 - 24 * 0.02 = 31.52, to the nearest; 32 - 24 * 0.0625 = 30.5, up
    assert [falling.cap(p) for p in (0.02, 0.0625)] == [32, 31]
    assert [Rebalance(n_max=8, n_max_end=32).cap(p) for p in (0.0, 0.5)] == [8, 20]
    assert [Rebalance(n_max=16).cap(p) for p in (0.0, 0.5, 1.0)] == [16, 16, 16]


def test_the_cap_of_the_moment_bounds_the_group():
    stage = Rebalance(n_max=32, n_max_end=8)
    groups = batch("0" * 8, "1" + "0" * 7)
    assert [r.n for r in stage.plan(view(groups, progress=0.5))] == [12, 12]
    assert stage.observe([]) == {"n_max": 20.0, "problems": 2.0, "rollouts": 24.0, "capped": 2.0}
    assert [r.n for r in stage.plan(view(groups, progress=0.999))] == []
    assert stage.observe([]) == {"n_max": 8.0, "problems": 0.0, "rollouts": 0.0, "capped": 2.0}


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (
            Rebalance(n_max=8),
            r"rebalance.n_max is 8, but every problem already has at least 16 rollouts .* set it to 16 or more",
        ),
        (Rebalance(n_max_end=15), "rebalance.n_max_end is 15, but every problem already has at least 16 rollouts"),
    ],
)
def test_a_cap_below_the_first_pass_is_refused_at_the_first_step(stage, sentence):
    with pytest.raises(UserError, match=sentence):
        stage.plan(view(batch("0" * 16, "1" * 16)))


def test_a_group_that_is_over_the_cap_among_others_gets_nothing():
    stage = Rebalance(n_max=6)
    assert [(r.problem.id, r.n) for r in stage.plan(view(batch("0" * 9, "0000")))] == [("p1", 2)]
    assert stage.observe([])["capped"] == 2.0


@pytest.mark.parametrize("options", [{"n_max": 0}, {"n_max_end": 0}, {"schedule": "HWE"}, {"n_min": 1}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValidationError):
        Rebalance(**options)


# What counts


def with_more(base: Group, endings: str, **rest: object) -> Group:
    return base.joined(members(endings, base.problem, first=base.size, **rest))


def test_only_the_first_pass_says_how_hard_a_problem_is():
    plain = group("10000000")  # 11 more under ET
    parent = plain.rollouts[1]
    branched = with_more(plain, "1111", parent=parent.id, prefix_ids=parent.token_ids[:1], stream="branch")
    seeded = with_more(plain, "1111", context=Context("seeded", ("p9",)))
    auxiliary = with_more(plain, "1111", stream="other")
    for found in (plain, branched, seeded, auxiliary):
        assert [r.n for r in Rebalance(schedule="et").plan(view([found]))] == [11]


def test_unscorable_rollouts_say_nothing_but_are_paid_for():
    # one of eight scorable succeeds: 11 more; twelve were sampled, so 20 fit, and only 4 under a cap of 16
    assert [r.n for r in Rebalance(schedule="et").plan(view([group("1eee0e000000")]))] == [11]
    assert [r.n for r in Rebalance(schedule="et", n_max=16).plan(view([group("1eee0e000000")]))] == [4]
    assert Rebalance().plan(view([group("eeee")])) == []


def test_what_an_earlier_stage_has_excluded_gets_no_more():
    excluded = group("00000000").excluded("refill: unsolved")
    assert Rebalance().plan(view([excluded])) == []


def test_nobody_in_need_and_groups_without_rollouts_are_ordinary():
    stage = Rebalance()
    assert stage.plan(view(batch("11110000", "11111111", ""))) == []
    assert stage.observe([]) == {"n_max": 32.0, "problems": 0.0, "rollouts": 0.0, "capped": 0.0}
    assert stage.plan(view([group("0000")], round=1)) == []


def test_under_an_explorer_both_passes_are_one_group():
    run = ScriptedRun([Uniform(n=8), Rebalance(n_max=20)], Situation(8, Uniform, by_rate))
    groups = run.next()
    for found in groups:
        first = [r for r in found.rollouts if r.stage == "0-uniform"]
        wanted = rollouts_wanted(8, sum(r.success for r in first), "hw")
        assert found.size == min(wanted, 20)
        assert [r.member for r in found.rollouts] == list(range(found.size))
        assert {r.stream for r in found.rollouts} == {"main"}
    assert {found.size for found in groups} > {8, 20}
