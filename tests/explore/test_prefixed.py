"""PrefixRL: what is kept of rare successes, where it is cut, and what continues it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from outrider.config import load_recipe
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members
from outrider.credit.siblings_mean import SiblingsMean
from outrider.errors import UserError
from outrider.explore import Prefixed, Uniform
from outrider.record import Context, Group, Outcome, Problem, SampleRequest
from outrider.record.turns import observed, sampled
from outrider.testing.scripted import POOL, ScriptedRun, SteppedEngine
from outrider.testing.situations import Situation
from scripted import group, members, view


def long(endings: str, length: int = 20, step: int = 1, problem=POOL[0]) -> Group:
    """Every token of a rollout is another one, and those of another rollout are others."""
    made = [
        members(ending, problem, step, first=i, token_ids=np.arange(100 * i, 100 * i + length, dtype=np.int32))
        for i, ending in enumerate(endings)
    ]
    return Group(problem, f"train:{step}:{problem.id}", tuple(itertools.chain.from_iterable(made)))


def continued(base: Group, request: SampleRequest, endings: str) -> Group:
    return base.joined(
        members(
            endings,
            base.problem,
            int(base.id.split(":")[1]),
            first=base.size,
            parent=request.prefix.parent,
            prefix_ids=request.prefix.ids,
            stage="1-prefixed",
        )
    )


def asked(stage: Prefixed, *groups: Group, step: int = 2) -> list[SampleRequest]:
    return stage.plan(view(groups, step))


# What is kept


@pytest.mark.parametrize(
    ("visits", "kept"),
    [
        (["1000"], True),
        (["1100"], False),  # half of them
        (["0000"], False),
        (["100e"], True),
        (["1eee"], False),  # all that could be verified
        (["eeee"], False),
        (["1000", "0000"], True),
        (["1000", "eeee"], True),
        (["1000", "1110"], False),
    ],
)
def test_successes_of_problems_that_are_seldom_solved_are_kept(visits, kept):
    stage = Prefixed()
    for step, endings in enumerate(visits, 1):
        stage.observe([long(endings, step=step)])
    assert bool(asked(stage, long("0000"))) == kept


def test_the_last_success_is_kept_with_its_own_prefix():
    stage = Prefixed(prefixes=1)
    stage.observe([long("1000")])
    [request] = asked(stage, long("0000", step=2))
    stage.observe([continued(long("0000", step=2), request, "0100")])
    [[_, rollout, ids, _]] = stage.state_dict()["kept"]
    assert rollout == "train:2:p0/5"
    assert ids == [*request.prefix.ids.tolist(), 5, 5, 5]  # a whole response


def test_seeded_successes_the_greedy_yardstick_and_short_ones_are_not_kept():
    stage = Prefixed()
    base = group("0000")
    base = base.joined(members("1", first=4, context=Context("seeded", ("p1",))))
    base = base.joined(members("1", first=5, context=Context(trained="excluded")))
    base = base.joined(members("1", first=6, token_ids=np.array([7], np.int32), logprobs_T=np.zeros(1, np.float32)))
    stage.observe([base])
    assert stage.state_dict() == {"kept": []}


def test_only_what_failed_throughout_is_continued_and_nothing_excluded():
    stage = Prefixed()
    stage.observe([long("1000")])
    for endings in ("0001", "eeee", ""):
        assert asked(stage, long(endings)) == []
    assert asked(stage, long("0000").excluded("refill: unsolved")) == []
    assert asked(stage, long("000e")) != []
    assert stage.plan(view([long("0000")], step=2, round=1)) == []


def test_what_is_remembered_longest_gives_way(monkeypatch):
    monkeypatch.setattr("outrider.explore.prefixed.MOST_SUCCESSES", 2)
    stage = Prefixed()
    for problem in POOL[:3]:
        stage.observe([long("1000", problem=problem)])
    assert [key for key, *_ in stage.state_dict()["kept"]] == ["p1", "p2"]


# Where it is cut


def test_cuts_are_uniform_between_low_and_high():
    stage = Prefixed(n=1, low=0.4, high=0.8)
    stage.observe([long("1000", length=1000)])
    cuts = []
    for step in range(2, 402):
        requests = asked(stage, long("0000", step=step), step=step)
        assert sum(r.n for r in requests) == 3
        for request in requests:
            cut = len(request.prefix.ids)
            assert request.prefix.ids.tolist() == list(range(cut))  # the first rollout's
            cuts += request.n * [cut]
    assert 400 <= min(cuts) < 405
    assert 795 < max(cuts) <= 800
    counts, _ = np.histogram(cuts, bins=8, range=(400, 800))
    assert np.abs(counts - 150).max() < 4.5 * 150**0.5


@pytest.mark.parametrize("length", range(2, 12))
def test_a_prefix_keeps_a_token_and_leaves_one(length):
    for low, high in ((0.01, 0.02), (0.98, 0.99), (0.3, 0.7)):
        stage = Prefixed(low=low, high=high)
        stage.observe([long("1000", length=length)])
        for request in asked(stage, long("0000")):
            assert 1 <= len(request.prefix.ids) <= length - 1


def test_cuts_that_coincide_are_one_family():
    stage = Prefixed(n=4, prefixes=3)
    stage.observe([long("1000", length=2)])
    [request] = asked(stage, long("0000"))
    assert request.n == 12


@pytest.mark.parametrize(
    ("endings", "share"),
    [
        ("0000", 0.6),
        ("1000", 0.6),
        ("1100", 0.5),  # half: it stays
        ("1110", 0.4),
        ("1e", 0.4),
        ("ee", 0.5),
    ],
)
def test_the_share_moves_towards_a_pass_rate_of_one_half(endings, share):
    stage = Prefixed(n=4, prefixes=1, low=0.2, high=0.8, move=0.1)
    stage.observe([long("1000")])
    base = long("0000", step=2)
    [request] = asked(stage, base)
    assert len(request.prefix.ids) == 10
    stage.observe([continued(base, request, endings)])
    assert stage.state_dict()["kept"][0][3] == pytest.approx(share)


def test_the_share_stays_within_its_bounds_and_where_nothing_was_continued():
    stage = Prefixed(n=4, prefixes=1, low=0.3, high=0.6, move=0.2)
    stage.observe([long("1000")])
    shares = []
    for step, endings in enumerate(["0000", "0000", "1111", "1111", "1111", None], 2):
        base = long("0000", step=step)
        if endings:
            [request] = asked(stage, base, step=step)
            base = continued(base, request, endings)
        stage.observe([base])
        shares.append(stage.state_dict()["kept"][0][3])
    assert shares == pytest.approx([0.6, 0.6, 0.4, 0.3, 0.3, 0.3])


# Given solutions


class Letters(SteppedEngine):
    """Each letter is a token; ``>`` ends a prompt as a chat format would, if there is one."""

    def __init__(self, closed: bool = False) -> None:
        self._end = ">" if closed else ""

    def encode(self, problem: Problem) -> np.ndarray:
        return np.array([ord(letter) for letter in problem.prompt + self._end], np.int32)


def with_solution(solution: object) -> Problem:
    return Problem("p0", "2+3=", metadata={"solution": solution})


def from_given(stage: Prefixed, problem: Problem, engine: SteppedEngine, step: int = 1) -> list[SampleRequest]:
    return stage.plan(replace(view([group("0000", problem, step)], step), engine=engine))


def test_a_given_solution_is_continued_until_there_is_a_success_of_its_own():
    stage, problem = Prefixed(n=2, prefixes=1, low=0.5, high=0.5, given=True), with_solution("1+1+1+1+1")
    [request] = from_given(stage, problem, Letters())
    assert "".join(map(chr, request.prefix.ids)) == "1+1+"
    stage.observe([group("0000", problem)])
    [request] = from_given(stage, problem, Letters(), step=2)
    assert (request.prefix.parent, request.prefix.branch_at) == ("given/p0", 4)
    stage.observe([continued(group("0000", problem, 2), request, "01")])
    [request] = from_given(stage, problem, Letters(), step=3)
    assert request.prefix.parent == "train:2:p0/5"
    assert "".join(map(chr, request.prefix.ids[:3])) == "1+1"


def test_a_given_solution_has_a_share_that_moves():
    stage, problem = Prefixed(prefixes=1, low=0.2, high=0.8, move=0.2, given=True), with_solution("1+1+1+1+1+")
    cuts = []
    for step in range(1, 5):
        [request] = from_given(stage, problem, Letters(), step)
        cuts.append(request.prefix.branch_at)
        stage.observe([continued(group("0000", problem, step), request, "00")])
    assert cuts == [5, 7, 8, 8]


@pytest.mark.parametrize(
    ("problem", "engine", "given"),
    [
        (with_solution(None), Letters(), True),
        (with_solution(7), Letters(), True),
        (with_solution("5"), Letters(), True),  # one token
        (with_solution("1+4"), Letters(closed=True), True),  # the prompt's end is somewhere else
        (with_solution("1+4"), Letters(), False),
    ],
)
def test_what_cannot_be_given_is_counted(problem, engine, given):
    stage = Prefixed(given=given)
    assert from_given(stage, problem, engine) == []
    numbers = stage.observe([group("0000", problem)])
    assert (numbers["unsolved"], numbers["helped"], numbers["ungiven"]) == (1.0, 0.0, float(given))


# In a run


def test_a_run_continues_what_an_earlier_step_found_and_goes_on_where_it_was_killed():
    pool = POOL[:6]

    def now_and_then(request: SampleRequest, member: int) -> Outcome:
        """Plain rollouts succeed on every other visit, once; with a prefix every second one does."""
        step = int(request.group_id.split(":")[1])
        right = member % 2 == 0 if request.prefix is not None else member == 0 and step % 4 < 2
        return Outcome.CORRECT if right else Outcome.INCORRECT

    situation = Situation(3, Uniform, now_and_then)
    made = ScriptedRun([Uniform(n=4), Prefixed(n=2)], situation, train=lambda i: pool[i % 6])
    steps = made.steps(8)
    assert [sum(asks[1] for asks in plan) > 0 for plan in made.plans] == [s % 4 >= 2 and s > 2 for s in range(1, 9)]
    group = next(g for g in steps[-2 if made.plans[-2] else -1] if g.size > 4)
    assert group.rollouts[4].parent.split(":")[1] != group.id.split(":")[1]
    again = ScriptedRun(
        [Uniform(n=4), Prefixed(n=2)], situation, train=lambda i: pool[i % 6], step=4, parents=dict(made.parents)
    )
    half = ScriptedRun([Uniform(n=4), Prefixed(n=2)], situation, train=lambda i: pool[i % 6])
    half.steps(4)
    again.explorer.load_state_dict(json.loads(json.dumps(half.explorer.state_dict())))
    again.steps(4)
    assert again.plans == made.plans[4:]


def test_siblings_are_compared_with_each_other_and_the_plain_failures_get_nothing():
    stage = Prefixed(n=4, prefixes=1, low=0.5, high=0.5)
    stage.observe([long("1000")])
    base = long("0000", step=2)
    [request] = asked(stage, base)
    found = Members.of(continued(base, request, "1000").rollouts)
    own = SiblingsMean(std=True).advantages(found)
    assert own[:4].tolist() == [0.0] * 4
    assert own[4:] == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)
    assert (GroupMean().advantages(found)[:4] < 0).all()  # what a common baseline would do


def test_a_prefix_of_an_earlier_step_counts_as_sampled():
    stage = Prefixed(prefixes=1)
    stage.observe([long("1000")])
    base = long("0000", step=2)
    [request] = asked(stage, base)
    found = continued(base, request, "1").rollouts
    by_id = {rollout.id: rollout for rollout in found}
    assert sampled(found[-1], by_id).tolist() == [True] * len(found[-1].response_ids)
    assert observed(found[-1], by_id, 99) == ()


# What is refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"low": 0.9}, "low is 0.9, above high, which is 0.8"),
        ({"move": 0.1}, "prefixes is 3, but move uses one prefix per problem"),
        ({"high": 1.0}, "less than 1"),
    ],
)
def test_options_that_do_not_agree_are_refused(options, says):
    with pytest.raises(ValidationError, match=says):
        Prefixed(**options)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["explore=[prefixed]"],
            "explore.0: prefixed needs plain rollouts and cannot be the first stage",
        ),
        (
            ["explore=[uniform, {prefixed: {stream: branch}}]"],
            "samples for the loss stream 'branch', which has no chain",
        ),
        (["task={hops: {}}", "explore=[uniform, prefixed]"], "cannot restore the environments of hops"),
    ],
)
def test_surroundings_that_it_cannot_work_in_are_refused(words, says):
    with pytest.raises(UserError, match=says):
        load_recipe("grpo", words)
