"""DAPO's dynamic sampling: when it goes on, how many it takes, and what it drops with which reason."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.errors import UserError
from outrider.explore import Rebalance, Refill, Uniform
from outrider.record import Group, Outcome, Problem, SampleRequest, identity_seed
from outrider.testing.scripted import POOL, ScriptedRun
from outrider.testing.situations import Situation, always, by_rate
from scripted import batch, group, members, view


def mixed(groups: Sequence[Group]) -> int:
    return sum(g.mixed for g in groups)


def kept(groups: Sequence[Group]) -> list[Group]:
    return [g for g in groups if not any(r.unused for r in g.rollouts)]


def run(*stages, problems=6, ending=by_rate) -> ScriptedRun:
    return ScriptedRun(stages, Situation(problems, Uniform, ending))


# How long it goes on


def test_a_step_ends_with_as_many_mixed_groups_as_it_began_with():
    """Two fifths of the scripted problems are always or never solved."""
    made = run(Uniform(n=8), Refill())
    for groups in made.steps(4):
        assert len(groups) > 6
        assert len(kept(groups)) == mixed(kept(groups)) == 6
        assert {g.size for g in groups} == {8}
        assert made.stage.observe([])["missing"] == made.stage.observe([])["capped"] == 0.0


def test_a_target_of_its_own_and_a_size_of_its_own():
    groups = run(Uniform(n=8), Refill(target=9, n=5)).next()
    assert len(kept(groups)) == 9
    assert {g.size for g in groups[6:]} == {5}


def test_rounds_that_are_used_up_leave_what_there_is():
    made = run(Uniform(n=2), Refill(attempts=2, oversample=2), problems=4, ending=always(Outcome.CORRECT))
    groups = made.next()
    # nothing is mixed: each round takes the most, two for each of the four missing groups
    assert len(groups) == 4 + 8 + 8
    assert kept(groups) == []
    assert made.stage.observe([]) == {
        "share": 0.0, "attempts": 2.0, "problems": 16.0, "missing": 4.0, "capped": 1.0,
        "solved": 20.0, "unsolved": 0.0, "truncated": 0.0, "unscorable": 0.0, "surplus": 0.0,
    }  # fmt: skip


def test_without_attempts_it_only_drops():
    groups = run(Uniform(n=8), Refill(attempts=0)).next()
    assert len(groups) == 6
    assert 0 < len(kept(groups)) == mixed(groups) < 6


def test_a_full_step_asks_for_nothing():
    stage = Refill()
    groups = batch("10", "01", "110")
    assert stage.plan(view(groups)) == []
    assert stage.drop(groups) == {}
    assert stage.observe([])["attempts"] == 0.0
    assert stage.observe([])["share"] == 1.0


def test_a_small_task_trains_on_what_it_has():
    five = [Problem(f"q{i}", "") for i in range(5)]
    stage = Refill()
    made = ScriptedRun(
        [Uniform(n=2), stage], Situation(2, Uniform, always(Outcome.CORRECT)), train=lambda i: five[i % 5]
    )
    groups = made.next()
    assert {group.problem.id for group in groups} == {p.id for p in five}
    # two began, three were left for the first round, none for the second: short of both, by no limit of its own
    assert {key: made.stage.observe([])[key] for key in ("attempts", "problems", "missing", "capped")} == {
        "attempts": 1.0, "problems": 3.0, "missing": 2.0, "capped": 0.0,
    }  # fmt: skip


def test_it_filters_and_does_not_begin():
    with pytest.raises(UserError, match="put uniform before it"):
        run(Refill(n=4)).next()


# How many it takes


@given(
    missing=st.integers(1, 600), sampled=st.integers(0, 600), oversample=st.integers(1, 5), data=st.data()
)  # fmt: skip
def test_a_round_takes_what_the_share_of_mixed_groups_lets_expect(missing, sampled, oversample, data):
    found = data.draw(st.integers(0, sampled))
    share = Fraction(found + 1, sampled + 2)
    expected = min(ceil(missing / share), oversample * missing)
    assert Refill(oversample=oversample).problems(missing, found, sampled) == expected
    assert missing <= expected <= oversample * missing


def test_a_new_problem_gets_as_many_as_the_first_stage_gave():
    """Not as many as DARS raised the hardest ones to."""
    groups = run(Uniform(n=4), Rebalance(n_max=16), Refill()).next()
    assert max(g.size for g in groups[:6]) > 4
    assert {g.size for g in groups[6:]} == {4}
    ragged = batch("10", "00000", "1")
    assert {r.n for r in Refill().plan(view(ragged))} == {5}


@pytest.mark.parametrize("options", [{"target": 0}, {"n": 0}, {"attempts": -1}, {"oversample": 0}, {"surplus": "no"}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValidationError):
        Refill(**options)


# What it drops


def dropped(stage: Refill, groups: list[Group]) -> list[str | None]:
    assert stage.plan(view(groups)) == []
    reasons = stage.drop(groups)
    return [reasons.get(g.id) for g in groups]


def test_every_reason():
    stage = Refill(attempts=0)
    endings = ["10", "11", "00", "tt", "t0", "1t", "ee", "1e", "0e", "te", "10e", "1", "0", "t", "e"]
    assert dropped(stage, batch(*endings)) == [
        None,
        "refill: solved",
        "refill: unsolved",
        "refill: truncated",
        "refill: unsolved",  # one of the two came to an end
        None,
        "refill: unscorable",
        "refill: solved",  # the error is in no baseline: there is nothing to compare with
        "refill: unsolved",
        "refill: truncated",
        None,
        "refill: solved",
        "refill: unsolved",
        "refill: truncated",
        "refill: unscorable",
    ]
    assert {k: v for k, v in stage.observe([]).items() if v and k not in ("share", "missing", "capped")} == {
        "solved": 3.0, "unsolved": 4.0, "truncated": 3.0, "unscorable": 2.0,
    }  # fmt: skip
    assert stage.observe([])["share"] == 3 / 15


def test_a_member_without_tokens_is_nobody_to_compare_with():
    silent = members("0", first=1, token_ids=np.zeros(0, np.int32), logprobs_T=np.zeros(0, np.float32))
    assert dropped(Refill(attempts=0), [group("1").joined(silent)]) == ["refill: solved"]


def test_shaped_rewards_of_an_unsolved_group_do_not_save_it():
    unsolved = group("0000")
    shaped = Group(
        unsolved.problem, unsolved.id, tuple(r.verified(r.verdict, 0.1 * r.member) for r in unsolved.rollouts)
    )
    assert dropped(Refill(attempts=0), [shaped]) == ["refill: unsolved"]


def test_a_group_that_was_excluded_before_is_neither_mixed_nor_dropped_again():
    stage = Refill(target=1, attempts=0)
    gone, live = batch("10", "10")
    gone = gone.excluded("other: reason")
    assert dropped(stage, [gone, live]) == [None, None]
    assert stage.observe([])["share"] == 1.0


def test_surplus_is_cut_by_a_seeded_draw_or_kept():
    groups = batch(*["10"] * 8)
    reasons = dropped(Refill(target=3), groups)
    assert sorted(reasons, key=str) == [None] * 3 + ["refill: surplus"] * 5
    turned = dropped(Refill(target=3), groups[::-1])
    assert turned[::-1] == reasons  # whatever the order they came in
    assert dropped(Refill(target=3, surplus="keep"), groups) == [None] * 8


def test_every_group_is_as_likely_to_be_surplus():
    stage, cut = Refill(target=2), np.zeros(4)
    groups = batch("10", "10", "10", "10")
    for seed in range(2000):
        stage.plan(view(groups, seed=identity_seed(seed)))
        cut += [g.id in stage.drop(groups) for g in groups]
    assert np.abs(cut / 2000 - 0.5).max() < 0.05  # four and a half standard errors


def test_reasons_reach_the_records():
    groups = run(Uniform(n=8), Refill()).next()
    for found in groups:
        reasons = {r.unused for r in found.rollouts}
        if not found.mixed:
            assert reasons == {"refill: solved" if found.successes else "refill: unsolved"}
        else:
            assert reasons in ({""}, {"refill: surplus"})


def test_new_problems_are_new_to_the_step():
    requests = Refill().plan(view(batch("11", "00")))
    assert [r.problem for r in requests] == POOL[2 : 2 + len(requests)]
    assert all(type(r) is SampleRequest and r.prefix is None and r.stream == "main" for r in requests)
