"""Explorer, stream, collector and assignment on scripted stages and a scripted sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PrivateAttr

from outrider.credit import GroupMean
from outrider.credit.assign import assign
from outrider.credit.reward import RewardOptions
from outrider.errors import UserError
from outrider.explore import Stage, Uniform, View
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Group, Problem, Rollout, SampleRequest, correct, incorrect
from outrider.testing.scripted import ScriptedEngine
from outrider.train.collect import Collector
from outrider.train.metrics import spent

PROBLEMS = [Problem(f"p{i}", "", level=str(i % 2)) for i in range(1000)]
EMPTY = np.zeros(0, np.int32)


def rollout(request: SampleRequest, index: int, tokens: int = 3, success: bool = False, **rest: object) -> Rollout:
    made = Rollout(
        problem_id=request.problem.id,
        group_id=request.group_id,
        member=request.first_member + index,
        prompt_ids=np.array([1], np.int32),
        token_ids=np.full(tokens, 5, np.int32),
        logprobs_T=np.zeros(tokens, np.float32),
        prefix_ids=EMPTY,
        stream=request.stream,
        stage=request.stage,
        seed=request.rollout_seed(index),
        **rest,
    )
    return made.verified(correct() if success else incorrect(), float(success))


def draw(requests: Sequence[SampleRequest]) -> list[Rollout]:
    """Success of every even member."""
    return [rollout(r, k, success=(r.first_member + k) % 2 == 0) for r in requests for k in range(r.n)]


class Doubling(Stage):
    """For two rounds, as many more rollouts as there are successes; counts the groups it has observed."""

    _seen: int = PrivateAttr(0)

    def plan(self, view: View) -> list[SampleRequest]:
        return [SampleRequest(g.problem, n=g.successes, stream="branch") for g in view.groups] if view.round < 2 else []

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        self._seen += len(groups)
        return {"seen": float(self._seen)}

    def state_dict(self) -> dict[str, object]:
        return {"seen": self._seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._seen = state["seen"]


class Counting(Stage):
    """Predicts of every problem but the first the share of steps that it has observed, of ten."""

    _steps: int = PrivateAttr(0)

    def plan(self, view: View) -> list[SampleRequest]:
        return []

    def predicted(self, problem: Problem) -> float | None:
        return None if problem.id == "p0" else self._steps / 10

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        self._steps += 1
        return {}


class Newcomer(Stage):
    """Asks for a problem that the step did not begin with, and once for nothing at all."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [SampleRequest(PROBLEMS[99], n=2), SampleRequest(PROBLEMS[0], n=0)] if view.round == 0 else []


def explorer(*stages: Stage) -> Explorer:
    return Explorer(stages, ProblemStream(PROBLEMS.__getitem__), ScriptedEngine(), seed=4)


def test_stages_follow_one_another_round_by_round() -> None:
    made = explorer(Uniform(n=4), Doubling())
    groups, metrics = made.explore(7, 2, draw)
    assert [g.id for g in groups] == ["train:7:p0", "train:7:p1"]
    for group in groups:
        # 4 uniform with 2 successes, then 2 (members 4 and 5, one success), then 3
        assert [r.member for r in group.rollouts] == list(range(9))
        assert [r.stage for r in group.rollouts] == ["0-uniform"] * 4 + ["1-doubling"] * 5
        assert [r.stream for r in group.rollouts] == ["main"] * 4 + ["branch"] * 5
        assert len({r.seed for r in group.rollouts}) == 9
    assert metrics == {"explore/1-doubling/seen": 2.0}
    assert made.stream.position == 2


def test_a_new_problem_joins_and_a_request_for_nothing_vanishes() -> None:
    groups = explorer(Newcomer()).explore(1, 1, draw).groups
    assert [(g.problem.id, g.size) for g in groups] == [("p0", 0), ("p99", 2)]


class Endless(Stage):
    """Its author forgot that a plan is asked for again."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [SampleRequest(g.problem, n=1) for g in view.groups]


def test_a_stage_whose_plan_is_never_empty_ends_with_a_sentence() -> None:
    with pytest.raises(UserError, match=r"explore\.1: Endless requested rollouts in all 1000 rounds of step 3"):
        explorer(Uniform(n=1), Endless()).explore(3, 1, lambda requests: [rollout(r, 0, tokens=1) for r in requests])


def test_a_recipes_stages_stay_as_they_are_written() -> None:
    """The explorer works on copies, so what a stage has learned is not in the recipe."""
    stage = Doubling()
    made = explorer(Uniform(n=4), stage)
    made.explore(7, 2, draw)
    assert made.stages[1].state_dict() != Doubling().state_dict()
    assert stage.state_dict() == Doubling().state_dict()


def test_state_round_trip_and_other_stages_are_refused() -> None:
    made = explorer(Uniform(n=2), Doubling())
    made.explore(1, 3, draw)
    again = explorer(Uniform(n=2), Doubling())
    again.load_state_dict(made.state_dict())
    assert again.state_dict() == made.state_dict()
    assert again.stream.take(1)[0].id == "p3"
    with pytest.raises(UserError, match="the recipe has"):
        explorer(Uniform(n=2)).load_state_dict(made.state_dict())
    with pytest.raises(ValueError, match="keeps no state"):
        Uniform().load_state_dict({"seen": 1})


def test_a_problem_that_returns_within_a_batch_is_passed_over() -> None:
    stream = ProblemStream(lambda index: PROBLEMS[index // 2])
    assert [p.id for p in stream.take(3)] == ["p0", "p1", "p2"]
    assert stream.position == 5
    assert [p.id for p in ProblemStream(lambda index: PROBLEMS[0]).take(2)] == ["p0"]


def test_a_step_does_not_begin_with_fewer_problems_than_it_asks_for() -> None:
    made = Explorer([Uniform(n=2)], ProblemStream(lambda index: PROBLEMS[0]), ScriptedEngine(), seed=0)
    with pytest.raises(UserError, match=r"a step needs 2 problems, but only 1 of the next \d+ are distinct"):
        made.explore(1, 2, lambda requests: [])


class Scripted:
    """A sampler that counts its calls."""

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        drawn = [rollout(r, k, tokens=10 if r.problem.level == "1" else 1) for r in requests for k in range(r.n)]
        return [replace(one, verdict=None, reward=None) for one in drawn]  # a verdict would be an environment's

    def updated(self, version: int) -> None: ...


class Verifier:
    def verify_all(self, items: Sequence[tuple[Problem, str, bool]]) -> list:
        return [correct() if problem.level == "1" else incorrect() for problem, _, _ in items]


def collector(size: int = 1) -> Collector:
    return Collector(Scripted(), Verifier(), RewardOptions(), Ranks(0, 1), Clock())  # type: ignore[arg-type]


def test_rollouts_come_back_in_the_order_of_the_requests() -> None:
    requests = [SampleRequest(PROBLEMS[i], n=n, group_id=f"g{i}") for i, n in ((3, 2), (0, 1), (5, 3))]
    rollouts = collector()(requests)
    assert [(r.problem_id, r.member) for r in rollouts] == [
        ("p3", 0), ("p3", 1), ("p0", 0), ("p5", 0), ("p5", 1), ("p5", 2),
    ]  # fmt: skip
    assert [r.reward for r in rollouts] == [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    assert collector()([]) == []


@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 4))
def test_split_gives_every_request_to_one_rank_evenly(counts: list[int], size: int) -> None:
    made = collector()
    made.ranks = Ranks(0, size)
    requests = [SampleRequest(PROBLEMS[0], n=n) for n in counts]
    parts = made.split(requests)
    assert sorted(i for part in parts for i in part) == list(range(len(counts)))
    loads = [sum(counts[i] for i in part) for part in parts]
    assert max(loads) - min(loads) <= max(counts, default=0)


def test_split_learns_what_a_level_costs() -> None:
    made = collector()
    made([SampleRequest(PROBLEMS[i], n=4, group_id=f"g{i}") for i in range(4)])
    made.ranks = Ranks(0, 2)
    dear, cheap = [PROBLEMS[1]], [PROBLEMS[2]] * 10  # ten tokens a rollout against one
    parts = made.split([SampleRequest(p, n=4) for p in dear + cheap])
    assert parts == [[0], list(range(1, 11))]
    new = collector()
    new.load_state_dict(made.state_dict())
    assert new.state_dict() == made.state_dict()
    assert made.renewed().state_dict() == {"lengths": {}}


def group(*successes: bool, **rest: object) -> Group:
    request = SampleRequest(PROBLEMS[0], n=len(successes), group_id="g")
    return Group(PROBLEMS[0], "g").joined(rollout(request, k, success=s, **rest) for k, s in enumerate(successes))


def test_assigned_advantages_and_reasons() -> None:
    mixed, solved = group(True, False), group(True, True)
    broken = Group(PROBLEMS[0], "g", (mixed.rollouts[0], mixed.rollouts[1].verified(incorrect(), float("nan"))))
    chains = {"main": [GroupMean(std=False)]}
    assigned = assign([mixed, solved, broken], chains, 1, False, ScriptedEngine().encode)
    assert [[r.advantage for r in g.rollouts] for g in assigned.groups] == [[0.5, -0.5], [0.0, 0.0], [0.0, 0.0]]
    assert [[r.unused for r in g.rollouts] for g in assigned.groups] == [
        ["", ""],
        ["no advantage"] * 2,
        ["no advantage", "unscorable"],
    ]
    assert len(assigned.rows) == 6  # all count in denominators
    kept = assign([solved], chains, 1, True, ScriptedEngine().encode)
    assert [r.unused for r in kept.groups[0].rollouts] == ["", ""]
    with pytest.raises(ValueError, match="rollouts of stream 'main' have no credit chain"):
        assign([mixed], {"branch": [GroupMean()]}, 1, False, ScriptedEngine().encode)


def test_a_rollout_without_trainable_tokens_is_excluded_and_changes_nobody() -> None:
    both = group(True, False, tokens=0)
    silent = both.rollouts[1]
    real = group(True, False, True).rollouts
    mixed = Group(PROBLEMS[0], "g", (real[0], silent, real[2]))
    assigned = assign([mixed], {"main": [GroupMean()]}, 1, False, ScriptedEngine().encode)
    assert assigned.groups[0].rollouts[1].unused == "no tokens"
    assert assigned.groups[0].rollouts[1].advantage is None
    assert len(assigned.rows) == 2
    assert not any(row.has_signal for row in assigned.rows)  # the two that count are equal


def test_observed_tokens_get_no_advantage() -> None:
    seen = np.array([True, False, True])
    mixed = group(True, False, trainable_T=seen)
    rows = assign([mixed], {"main": [GroupMean(std=False)]}, 1, False, ScriptedEngine().encode).rows
    assert [row.advantages_N.tolist() for row in rows] == [[0.5, 0.0, 0.5], [-0.5, 0.0, -0.5]]


def test_every_token_is_booked_on_its_stage_and_its_return() -> None:
    """By hand: 2 problems of 2 rollouts of 3 tokens, of which member 0 succeeds; then one more of one problem."""
    first, second = (Group(p, f"g:{p.id}") for p in PROBLEMS[:2])
    plan = [SampleRequest(g.problem, n=2, group_id=g.id, stage="0-uniform") for g in (first, second)]
    more = SampleRequest(first.problem, n=1, group_id=first.id, stage="1-more", first_member=2)
    groups = [
        first.joined([rollout(plan[0], 0), rollout(plan[0], 1), rollout(more, 0, tokens=10, success=True)]),
        second.joined([rollout(plan[1], 0, success=True), rollout(plan[1], 1)]).excluded("dropped"),
    ]
    assert spent(groups) == {
        "spent/0-uniform/tokens": 12,
        "spent/0-uniform/rollouts": 4,
        "spent/0-uniform/success_per_1000": 1000 / 12,
        "spent/0-uniform/solved_per_1000": 1000 / 12,
        "spent/1-more/tokens": 10,
        "spent/1-more/rollouts": 1,
        "spent/1-more/success_per_1000": 100,
        "spent/1-more/solved_per_1000": 100,
        "spent/branched": 0,
        "spent/seeded": 0,
        "spent/unused": 6,
        "spent/unused/dropped": 6,
    }


class Dropping(Uniform):
    """Drops the first group of a step, or one that is not there."""

    unknown: bool = False

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {"train:9:nowhere": "lost"} if self.unknown else {groups[0].id: "dropping: first"}


def test_a_dropped_group_stays_with_its_reason_and_an_unknown_one_is_a_bug() -> None:
    first, second = explorer(Dropping(n=2)).explore(1, 2, draw).groups
    assert [r.unused for g in (first, second) for r in g.rollouts] == ["dropping: first"] * 2 + [""] * 2
    assert [
        r.unused
        for g in assign([first], {"main": [GroupMean()]}, 1, False, ScriptedEngine().encode).groups
        for r in g.rollouts
    ] == ["dropping: first"] * 2
    with pytest.raises(
        ValueError, match=r"Dropping drops groups or rollouts that are not in the step: \['train:9:nowhere'\]"
    ):
        explorer(Dropping(n=2, unknown=True)).explore(1, 2, draw)


def test_what_a_stage_needs_is_loaded_before_anything_is_sampled() -> None:
    class Needy(Uniform):
        def prepare(self) -> None:
            raise UserError("no such thing")

    made = Explorer([Uniform(n=1), Needy()], ProblemStream(PROBLEMS.__getitem__), ScriptedEngine(), seed=0)
    with pytest.raises(UserError, match="no such thing"):
        made.prepare()


def test_rollouts_keep_what_was_predicted_before_the_step_was_observed() -> None:
    explore = explorer(Counting(), Uniform(n=2), Newcomer(), Doubling())
    for step in (1, 2):
        groups = explore.explore(step, 2, draw).groups
        expected = {group.problem.id: None if group.problem.id == "p0" else (step - 1) / 10 for group in groups}
        assert {(group.problem.id, r.predicted) for group in groups for r in group.rollouts} == set(expected.items())
        assert "p99" in expected  # a problem that joined within the step


def test_what_is_replayed_keeps_no_prediction_of_another_step() -> None:
    old = replace(rollout(SampleRequest(PROBLEMS[1], group_id="train:1:p1"), 0), predicted=0.5, advantage=1.0)
    again = old.again("train:2:p1", 0, "replay", "main")
    group = Group(PROBLEMS[1], "train:2:p1", (again,)).predicted_as(0.75)
    assert [(r.predicted, r.advantage) for r in group.rollouts] == [(None, None)]
