"""The across-epoch curriculum: who is refused how often, and that no pool drains."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.explore import Skip, Uniform
from outrider.explore.stream import ProblemStream
from outrider.record import Context, Outcome
from outrider.testing.scripted import POOL, ScriptedRun
from outrider.testing.situations import Situation, always, by_rate
from scripted import batch, group, members


def visited(*visits: str, **options: object) -> Skip:
    """A stage that has seen the pool's first problem end so, visit after visit."""
    stage = Skip(**options)
    for step, endings in enumerate(visits, start=1):
        stage.observe([group(endings, step=step)])
    return stage


def visits(stage: Skip) -> int:
    """How many unanimous visits in a row the stage holds against the first problem."""
    return next((s[2] for s in stage.state_dict()["streaks"] if s[0] == "p0"), 0)


def share_taken(stage: Skip, offers: int = 4000) -> float:
    return sum(stage.admits(POOL[0], 9) for _ in range(offers)) / offers


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((), 0),
        (("00",), 1),
        (("00", "000", "0000"), 3),
        (("11", "111"), 2),
        (("00", "10"), 0),
        (("00", "10", "00"), 1),
        (("00", "00", "11"), 1),  # the policy has learned it: a new row
        (("00", "1"), 1),  # one rollout agrees with itself
        (("00", "0e"), 1),
        (("00", "ee"), 1),
        (("00", "00e"), 2),
        (("1e1",), 1),
        (("tt", "tt"), 2),
    ],
)
def test_unanimous_visits_in_a_row(seen, expected):
    assert visits(visited(*seen)) == expected


@given(st.integers(0, 2000), st.floats(0.01, 0.99), st.floats(0.02, 1))
def test_the_chance_falls_with_every_visit_down_to_the_floor(z, keep, floor):
    stage = Skip(keep=keep, floor=floor)
    assert stage.chance(z + 1) <= stage.chance(z)
    assert stage.chance(z) == max(keep**z, floor) >= floor
    assert stage.chance(0) == 1.0


@pytest.mark.parametrize(("z", "expected"), [(1, 0.5), (2, 0.25), (3, 0.125), (4, 0.1), (20, 0.1)])
def test_problems_are_taken_as_often_as_their_chance(z, expected):
    # 4,000 draws: a standard error of at most 0.008
    assert share_taken(visited(*["00"] * z)) == pytest.approx(expected, abs=0.03)
    assert share_taken(visited(*["11"] * z)) == pytest.approx(expected, abs=0.03)


def test_new_and_mixed_problems_are_always_taken():
    assert share_taken(Skip(), 100) == share_taken(visited("00", "01"), 100) == 1.0


def test_draws_differ_between_problems_visits_and_runs():
    def draws(step: int, seed_of: int) -> list[bool]:
        stage = Skip()
        stage.observe([group("00", POOL[seed_of], step)])
        return [stage.admits(POOL[seed_of], 9) for _ in range(64)]

    assert draws(1, 0) == draws(1, 0)
    assert len({tuple(draws(step, problem)) for step in (1, 2) for problem in (0, 1)}) == 4
    runs = [
        ScriptedRun([Uniform(n=2), Skip()], Situation(6, Uniform, always(Outcome.INCORRECT)), seed=seed)
        for seed in (1, 2)
    ]
    batches = [[[g.problem.id for g in groups] for groups in run.steps(8)] for run in runs]
    assert batches[0][:4] == batches[1][:4]  # the first epoch takes all
    assert batches[0] != batches[1]


def test_branches_and_seeded_rollouts_that_find_a_solution_keep_a_problem():
    unsolved = group("000")
    parent = unsolved.rollouts[0]
    branched = unsolved.joined(members("01", first=3, parent=parent.id, prefix_ids=parent.token_ids[:1]))
    seeded = unsolved.joined(members("01", first=3, context=Context("seeded", ("p1",))))
    for found in (branched, seeded):
        stage = visited("00")
        stage.observe([found])
        assert visits(stage) == 0


def test_groups_that_were_dropped_are_visits():
    stage = Skip()
    stage.observe([group("11").excluded("refill: solved")])
    assert visits(stage) == 1


def test_the_metrics_are_of_the_last_step():
    stage = Skip(keep=0.01, floor=0.02)
    stage.observe(batch("11", "00", "00", "10"))
    for _ in range(1000):
        for problem in POOL[:4]:
            stage.admits(problem, 2)
    found = stage.observe(batch("", "", "", "10"))
    assert 960 < found["skipped_solved"] < 1000
    assert 1920 < found["skipped_unsolved"] < 2000
    assert (found["streaks_solved"], found["streaks_unsolved"]) == (1.0, 2.0)
    later = stage.observe([])
    assert later["skipped_solved"] == later["skipped_unsolved"] == 0.0


def test_no_pool_drains_in_ten_thousand_steps():
    """Half of the problems stay solved for ever, half unsolved; all come back, each about as often as the others."""
    stage, stream = Skip(), ProblemStream(lambda index: POOL[index % len(POOL)])
    times = dict.fromkeys((p.id for p in POOL), 0)
    for step in range(10_000):
        [problem] = stream.take(1, admits=lambda problem, step=step: stage.admits(problem, step))
        times[problem.id] += 1
        stage.observe([group("11" if POOL.index(problem) % 2 else "00", problem, step)])
    even = 10_000 / len(POOL)  # 312 visits, with a standard error of at most 17
    assert min(times.values()) > 0.75 * even
    assert max(times.values()) < 1.25 * even


def test_a_step_as_large_as_its_pool_finds_everyone_whatever_the_floor():
    """The last of 32 problems at a chance of 0.02 takes some 200 epochs of the pool."""
    situation = Situation(len(POOL), Uniform, always(Outcome.INCORRECT))
    run = ScriptedRun([Uniform(n=2), Skip(keep=0.01, floor=0.02)], situation, train=lambda i: POOL[i % len(POOL)])
    assert all(len(groups) == len(POOL) for groups in run.steps(12))


def test_the_greedy_yardstick_is_no_visit():
    for greedy in "01":
        stage = visited("00")
        before = visits(stage)
        unsolved = group("000", step=2)
        stage.observe([unsolved.joined(members(greedy, first=3, context=Context(trained="excluded")))])
        assert visits(stage) == before + 1


def test_mixed_problems_come_up_more_often_than_the_others():
    run = ScriptedRun([Uniform(n=8), Skip()], Situation(8, Uniform, by_rate))
    counts = {True: [], False: []}
    for groups in run.steps(60):
        for found in groups:
            counts[found.mixed].append(found.problem.id)
    sometimes, never = set(counts[True]), set(counts[False]) - set(counts[True])
    assert sometimes
    assert never
    per_problem = [
        sum(counts[True].count(p) + counts[False].count(p) for p in kind) / len(kind) for kind in (sometimes, never)
    ]
    assert per_problem[0] > 3 * per_problem[1]


def test_state_survives_with_the_draws_that_were_made():
    stage = visited("00", "00")
    first = [stage.admits(POOL[0], 9) for _ in range(10)]
    again = Skip()
    again.load_state_dict(json.loads(json.dumps(stage.state_dict())))
    rest = [stage.admits(POOL[0], 9) for _ in range(50)]
    assert [again.admits(POOL[0], 9) for _ in range(50)] == rest
    assert np.mean(first + rest) == pytest.approx(0.25, abs=0.2)


@pytest.mark.parametrize("options", [{"keep": 0.0}, {"keep": 1.0}, {"floor": 0.01}, {"floor": 1.5}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValidationError):
        Skip(**options)
