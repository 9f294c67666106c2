"""XRPO's planner: its budget to the last rollout, and whom it seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from test_prioritise_formulas import T

from outrider.config.train import EvaluateOptions
from outrider.credit.reward import RewardOptions
from outrider.errors import UserError
from outrider.explore import Branch, EntropyBranch, Greedy, Prioritise, Refill, Seed, Stage, Surroundings, Uniform, View
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.processes.clock import Clock
from outrider.processes.ranks import Ranks
from outrider.record import Context, Group, Problem, Rollout, SampleRequest, Verdict, correct, incorrect
from outrider.record.verdict import Outcome
from outrider.testing.scripted import ScriptedEngine
from outrider.train.collect import Collector
from outrider.train.evaluate import Evaluator
from scripted import LONG
from small import params

EMPTY = np.zeros(0, np.int32)
PROBLEMS = [Problem(f"p{i}", f"question {i}") for i in range(50)]

# Plans

Succeeds = Callable[[SampleRequest, int], bool]


def rollout(request: SampleRequest, index: int, success: bool, **rest: object) -> Rollout:
    member = request.first_member + index
    made = Rollout(
        problem_id=request.problem.id,
        group_id=request.group_id,
        member=member,
        prompt_ids=EMPTY if request.prompt_ids is None else request.prompt_ids,
        token_ids=np.array([1, 2], np.int32),
        logprobs_T=np.zeros(2, np.float32),
        prefix_ids=EMPTY,
        context=request.context,
        stage=request.stage,
        text=f"solution {member} of {request.problem.id}",
        **rest,
    )
    return made.verified(correct() if success else incorrect(), float(success))


class Run:
    """Steps of an explorer over scripted successes; remembers the requests of each round."""

    def __init__(self, stage: Stage, succeeds: Succeeds, base: int = 4, problems: Sequence[Problem] = PROBLEMS) -> None:
        self.succeeds = succeeds
        stream = ProblemStream(lambda index: problems[index % len(problems)])
        self.explorer = Explorer([Uniform(n=base), stage], stream, ScriptedEngine(), seed=1)
        self.stage = self.explorer.stages[-1]
        self.rounds: list[list[SampleRequest]] = []

    def step(self, step: int, problems: int) -> list[Group]:
        self.rounds = []
        groups, self.metrics = self.explorer.explore(step, problems, self.draw)
        return groups

    def draw(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        self.rounds.append(list(requests))
        return [rollout(r, k, self.succeeds(r, r.first_member + k)) for r in requests for k in range(r.n)]

    def extra(self, round: int) -> dict[str, int]:
        return {r.problem.id: r.n for r in self.rounds[round]}


def groups_of(*outcomes: str, step: int = 1) -> list[Group]:
    """``"+-"``: a success and a failure; capitals S and F are seeded ones, ``!`` is a verifier's timeout."""
    made = []
    for problem, marks in zip(PROBLEMS, outcomes, strict=False):
        rollouts = []
        for member, mark in enumerate(marks):
            context = Context("seeded", ("x",)) if mark in "SF" else Context()
            request = SampleRequest(problem, group_id=f"g:{problem.id}", first_member=member, context=context)
            one = rollout(request, 0, mark in "+S")
            rollouts.append(one.verified(Verdict(Outcome.TIMEOUT, math.nan), math.nan) if mark == "!" else one)
        made.append(Group(problem, f"g:{problem.id}", tuple(rollouts)))
    return made


def plan(stage: Prioritise, groups: Sequence[Group], round: int = 0, seed: int = 0) -> dict[str, int]:
    view = View(list(groups), 1, round, 0.0, lambda n: [], ScriptedEngine(), seed, LONG)
    return {r.problem.id: r.n for r in stage.plan(view)}


def test_the_budget_of_the_paper_is_64_and_32_and_32():
    run = Run(Prioritise(total=128), lambda request, member: member % 3 == 0)
    groups = run.step(1, 16)
    assert [sum(r.n for r in requests) for requests in run.rounds] == [64, 32, 32]
    assert sum(g.size for g in groups) == 128


def test_a_round_is_shared_in_proportion_to_the_priorities():
    """By hand: 2 of 4 has 0.2018 + 0.0832, 0 of 4 and 4 of 4 have the bonus alone, 0.0832 with T = 15."""
    bonus = 0.1 * math.sqrt(math.log(16) / 4)
    delta = math.sqrt(1 / 3) * (T[3] / 2 - T[4] / math.sqrt(5))
    share = 15 * (delta + bonus) / (delta + 3 * bonus)  # 9.47, and 2.76 for the others: 9, 2, 2 and two left over
    assert math.floor(share) == 9
    assert plan(Prioritise(total=27, rounds=1), groups_of("++--", "----", "++++")) == {"p0": 9, "p1": 3, "p2": 3}


def test_the_round_is_t_or_the_whole_step_with_cumulative():
    """Without Δ priorities differ by 1 / sqrt(n) alone; with it, a larger T moves weight to the bonus."""
    groups = groups_of("++--", *["----"] * 9)
    alone, whole = (plan(Prioritise(total=240, rounds=1, cumulative=c), groups)["p0"] for c in (False, True))
    delta = math.sqrt(1 / 3) * (T[3] / 2 - T[4] / math.sqrt(5))
    for got, pulls in ((alone, 200), (whole, 240)):
        bonus = 0.1 * math.sqrt(math.log(1 + pulls) / 4)
        assert abs(got - 200 * (delta + bonus) / (delta + 10 * bonus)) < 1
    strong = [
        plan(Prioritise(total=4040, rounds=8, cumulative=c, bonus=5.0), groups)["p0"] for c in (False, True)
    ]  # T is 500 of 4000, or 540
    assert strong[0] >= strong[1]


@given(
    st.lists(st.text("+-!SF", min_size=1, max_size=9), min_size=1, max_size=12),
    st.integers(1, 200),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([0.0, 0.1]),
)
def test_the_budget_is_spent_to_the_last_rollout_evenly_over_rounds(outcomes, extra, rounds, pool, bonus):
    groups = groups_of(*outcomes)
    stage = Prioritise(total=max(2, sum(map(len, outcomes)) + extra), rounds=rounds, pool_seeded=pool, bonus=bonus)
    extra = stage.total - sum(map(len, outcomes))
    spent = []
    for round in range(rounds + 1):
        requests = plan(stage, groups, round)
        spent.append(sum(requests.values()))
        groups = [
            g.joined(
                rollout(SampleRequest(g.problem, group_id=g.id, first_member=g.size), k, k % 2 == 0)
                for k in range(requests.get(g.problem.id, 0))
            )
            for g in groups
        ]
    assert sum(spent) == extra
    assert spent[-1] == 0
    assert max(spent[:-1]) - min(spent[:-1]) <= 1
    assert stage.observe([])["unspent"] == 0
    assert stage.observe([])["extra"] == extra


@given(st.lists(st.text("+-", min_size=1, max_size=8), min_size=2, max_size=9), st.integers(1, 40), st.integers(0, 9))
def test_the_order_of_the_batch_does_not_matter(outcomes, extra, seed):
    groups = groups_of(*outcomes)
    stage = Prioritise(total=sum(map(len, outcomes)) + extra, rounds=1)
    assert plan(stage, groups[::-1], seed=seed) == plan(stage, groups, seed=seed)


def test_equal_priorities_go_to_the_smaller_group_and_then_by_a_draw_of_the_step():
    # without bonus and spread all weigh the same, and 1 of 3 is left over: the group of two comes first
    assert plan(Prioritise(total=12, rounds=1, bonus=0.0), groups_of("---", "--", "+++")) == {"p0": 1, "p1": 2, "p2": 1}
    groups = groups_of(*["--"] * 8)
    winners = {next(iter(plan(Prioritise(total=17, rounds=1), groups, seed=seed))) for seed in range(20)}
    assert len(winners) > 3


def test_a_large_bonus_makes_the_allocation_uniform():
    """What the recipe xrpo-no-plan relies on: in every round as many for each, whatever came of the rollouts."""
    run = Run(
        Prioritise(total=16 * 8, rounds=2, bonus=1e6), lambda request, member: member < int(request.problem.id[1:]) % 5
    )
    run.step(1, 16)
    assert [set(run.extra(round).values()) for round in (1, 2)] == [{2}, {2}]


def test_each_round_is_estimated_anew():
    """p0 fails in its base rollouts and succeeds in the first round: 2 of 6 against 0 of 6 in the second.

    By hand: Δ = 0.5164 (2.5706 / sqrt 6 - 2.4469 / sqrt 7) = 0.064, bonus = 0.1 sqrt(log 5 / 6) = 0.052, so that the
    shares of 4 are 2.77 and 1.23.
    """
    run = Run(Prioritise(total=16, rounds=2), lambda request, member: request.problem.id == "p0" and member >= 4)
    run.step(1, 2)
    assert run.extra(1) == {"p0": 2, "p1": 2}
    assert run.extra(2) == {"p0": 3, "p1": 1}


def test_solved_problems_are_skipped_on_request_and_then_the_budget_may_stay():
    groups = groups_of("++", "--", "+-")
    assert plan(Prioritise(total=60, rounds=1), groups).keys() == {"p0", "p1", "p2"}
    stage = Prioritise(total=60, rounds=1, skip_solved=True)
    without = plan(stage, groups)
    assert without.keys() == {"p1", "p2"}
    assert sum(without.values()) == 54
    solved = groups_of("++", "+!")  # a timeout is no failure
    assert plan(stage, solved) == {}
    assert stage.observe([])["unspent"] == 56


def test_verifier_errors_are_no_failures():
    assert plan(Prioritise(total=30, rounds=1), groups_of("++!!", "++++")) == {"p0": 11, "p1": 11}


def test_a_problem_that_the_verifier_cannot_verify_gets_nothing_more_and_is_counted():
    """One checker that always hangs took 57 of 64 rollouts, in every step that its problem came up."""
    stage = Prioritise(total=16 * 4 + 64, rounds=1)
    extra = plan(stage, groups_of("!!!!", *["++--"] * 8, *["----"] * 7))
    assert "p0" not in extra
    assert sum(extra.values()) == 64
    assert stage.observe([])["unscorable"] == 1
    run = Run(Prioritise(total=48), lambda request, member: member % 2 == 0)
    broken, run.draw = (
        run.draw,
        lambda requests: [
            r.verified(Verdict(Outcome.ERROR, math.nan), math.nan) if r.problem_id == "p0" else r
            for r in broken(requests)
        ],
    )
    for step in range(1, 4):
        sizes = {g.problem.id: g.size for g in run.step(step, 4)}
        assert sizes.get("p0", 4) == 4
        assert sum(sizes.values()) == 48
    assert plan(stage, groups_of("!!!!", "!!!!")) == {"p0": 60, "p1": 60}  # nobody can be preferred
    assert [stage.observe([])[name] for name in ("unscorable", "unspent")] == [2, 0]
    assert plan(Prioritise(total=128, skip_solved=True), groups_of("!!!!", "++++")) == {}


def test_a_single_verdict_beside_errors_outweighs_nobody():
    """A spread that is not known counts for no more than the largest that is, and as nothing where nobody has any."""
    got = plan(Prioritise(total=16 + 40, rounds=1), groups_of("+!!!", "++--", "++--", "----"))
    assert got["p0"] == got["p1"] == got["p2"]
    agreed = groups_of("-!!!", "++++", "----")
    assert plan(Prioritise(total=12 + 30, rounds=1), agreed) == {"p0": 10, "p1": 10, "p2": 10}


def test_a_problem_whose_seeded_rollouts_are_kept_out_of_the_estimate():
    """Pooled, two plain failures and two seeded successes are as uncertain as can be; alone, the failures agree."""
    groups = groups_of("--SS", "++--")
    assert plan(Prioritise(total=28, rounds=1), groups) == {"p0": 10, "p1": 10}
    apart = plan(Prioritise(total=28, rounds=1, pool_seeded=False), groups)
    bonus = 0.1 * math.sqrt(math.log(21) / 4)  # by all four rollouts of either
    delta = math.sqrt(1 / 3) * (T[3] / 2 - T[4] / math.sqrt(5))
    assert apart["p0"] == round(20 * bonus / (delta + 2 * bonus))


def test_branches_and_dropped_groups():
    """A branch counts in the total and not in the estimate; a group that is excluded gets nothing."""
    groups = groups_of("++--", "----", "+-+-")
    lone = groups[1].rollouts[0]
    branch = replace(lone, member=4, parent=lone.id, prefix_ids=lone.token_ids).verified(correct(), 1.0)
    groups[1] = groups[1].joined([branch])
    groups[2] = groups[2].excluded("other: reason")
    got = plan(Prioritise(total=13 + 20, rounds=1, bonus=0.0), groups)
    assert got == {"p0": 20}
    assert plan(Prioritise(total=33, rounds=1), [g.excluded("other: reason") for g in groups]) == {}


def setting(before: Sequence[Stage]) -> Surroundings:
    return Surroundings(before, problems=16, max_tokens=64, streams=["main", "branch"], task="countdown")


def test_a_total_that_leaves_nothing_is_refused():
    with pytest.raises(ValueError, match=r"total is 64 .* sample 64 for 16 problems, so none is left"):
        Prioritise(total=64).check(setting([Uniform(n=4)]))
    with pytest.raises(ValueError, match=r"total is 100 .* sample 160 for 16 problems, so none is left"):
        Prioritise(total=100).check(setting([Uniform(n=4), EntropyBranch(total=10)]))
    with pytest.raises(ValueError, match=r"total is 80 .* sample 80 for 16 problems, so none is left"):
        Prioritise(total=80).check(setting([Uniform(n=4), Greedy(max_tokens=8)]))
    Prioritise(total=65).check(setting([Uniform(n=4), Branch(), Refill()]))
    run = Run(Prioritise(), lambda request, member: False)
    with pytest.raises(UserError, match="none has any: put uniform before it"):
        Explorer([Prioritise()], ProblemStream(PROBLEMS.__getitem__), ScriptedEngine(), 0).explore(1, 3, run.draw)
    assert run.step(1, 0) == []


def test_a_total_that_earlier_stages_happen_to_use_up_ends_no_run():
    """How many rollouts a refill draws, the outcomes decide."""
    stage = Prioritise(total=12)
    assert plan(stage, groups_of("++--", "----", "+-+-")) == {}
    assert [stage.observe([])[name] for name in ("extra", "unspent", "overdrawn")] == [0, 0, 0]
    assert plan(stage, groups_of("++--", "----", "+-+-", "++++")) == {}
    assert [stage.observe([])[name] for name in ("extra", "unspent", "overdrawn")] == [0, 0, 4]
    assert sum(plan(stage, groups_of("++--", "----")).values()) == 2  # the first of two rounds
    assert stage.observe([])["overdrawn"] == 0


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"rounds": 0}, {"bonus": -0.1}, {"total": 1}, {"lam": 0.1}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        Prioritise(**wrong)


def test_metrics_by_hand():
    stage = Prioritise(total=27, rounds=1)
    groups = groups_of("++--", "----", "++++")
    assert plan(stage, groups) == {"p0": 9, "p1": 3, "p2": 3}
    grown = [
        g.joined(rollout(SampleRequest(g.problem, group_id=g.id, first_member=4), k, False) for k in range(n))
        for g, n in zip(groups, (9, 3, 3), strict=True)
    ]
    assert stage.observe(grown) == {
        "extra": 15,
        "extra_unsolved": 3,
        "extra_solved": 3,
        "unscorable": 0,
        "unspent": 0,
        "overdrawn": 0,
        "effective_problems": pytest.approx(27**2 / (13**2 + 2 * 7**2)),
        "weight_max": pytest.approx(13 / 9),
        "extra_max": 9,
        "extra_none": 0,
    }


# With examples


def test_unsolved_problems_are_seeded_until_they_succeed():
    """Step 1 fills the corpus with p0; in step 2 p1 fails until it sees an example, and then is asked plainly."""

    def succeeds(request: SampleRequest, member: int) -> bool:
        return request.problem.id == "p0" or request.context.kind == "seeded"

    run = Run(Prioritise(total=12, seed=Seed(k=2)), succeeds, base=2, problems=PROBLEMS[:2])
    run.step(1, 2)
    assert all(r.context.kind == "plain" for requests in run.rounds for r in requests)
    assert run.metrics["explore/1-prioritise/unseeded"] == 4  # p1, with an empty corpus
    run.step(2, 2)
    seeds = [{r.problem.id: r.context for r in requests} for requests in run.rounds]
    assert seeds[1] == {"p0": Context(), "p1": Context("seeded", ("p0",), "as_generated")}
    assert seeds[2] == {"p0": Context(), "p1": Context()}
    metrics = {key.rpartition("/")[2]: value for key, value in run.metrics.items()}
    assert (metrics["seeded"], metrics["unseeded"], metrics["fewer"], metrics["rescued"]) == (2, 0, 2, 1)
    assert (metrics["corpus"], metrics["corpus_seeded"]) == (2, 1)


def test_a_resumed_run_plans_as_the_uninterrupted_one():
    def succeeds(request: SampleRequest, member: int) -> bool:
        return (int(request.problem.id[1:]) * 7 + member) % 5 == 0

    def new() -> Run:
        return Run(Prioritise(total=60, bonus=1.0, seed=Seed(k=3)), succeeds, problems=PROBLEMS[:30])

    def plans(run: Run) -> list[tuple[object, ...]]:
        return [(r.problem.id, r.n, r.context) for requests in run.rounds for r in requests]

    whole = new()
    for step in range(1, 5):
        whole.step(step, 8)
    state = whole.explorer.state_dict()
    resumed = new()
    resumed.explorer.load_state_dict(state)
    for step in range(5, 8):
        whole.step(step, 8)
        resumed.step(step, 8)
        assert plans(resumed) == plans(whole)
        assert any(r.context.kind == "seeded" for r in whole.rounds[1])
    assert resumed.metrics == whole.metrics
    assert resumed.explorer.state_dict() == whole.explorer.state_dict()
    with pytest.raises(ValueError, match="keeps no state"):
        Prioritise().load_state_dict({"seed": {}})


class Listening:
    """A sampler that notes what it is asked, and answers each with the same failure."""

    def __init__(self) -> None:
        self.asked: list[SampleRequest] = []

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        self.asked += requests
        return [rollout(r, k, False) for r in requests for k in range(r.n)]

    def updated(self, version: int) -> None: ...


class Verifier:
    def verify_all(self, items: Sequence[object]) -> list[Verdict]:
        return [incorrect() for _ in items]


def test_an_evaluation_sees_no_example():
    """It asks the tokenizer for each problem's own prompt and consults no stage."""
    sampler, engine = Listening(), ScriptedEngine()
    collect = Collector(sampler, Verifier(), RewardOptions(), Ranks(0, 1), Clock())  # type: ignore[arg-type]
    Evaluator(PROBLEMS[:5], engine.encode, collect, EvaluateOptions(problems=5, n=2, bootstrap=10), params()).run()
    asked = [(r.context, r.prompt_ids.tolist()) for r in sampler.asked]
    assert len(asked) == 10  # samples and greedy
    assert set(map(str, asked)) == {str((Context(), engine.encode(PROBLEMS[0]).tolist()))}
