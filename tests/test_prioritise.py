"""XRPO's planner: its formulas by hand, its budget to the last rollout, and whom it seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.errors import UserError
from outrider.explore import Prioritise, Seed, Stage, Uniform, View
from outrider.explore.apportion import apportion
from outrider.explore.explorer import Explorer
from outrider.explore.prioritise import exploration_bonus, reduction
from outrider.explore.stream import ProblemStream
from outrider.record import Context, Group, Problem, Rollout, SampleRequest, Verdict, correct, incorrect
from outrider.record.verdict import Outcome
from outrider.train.clock import Clock
from outrider.train.collect import Collector
from outrider.train.evaluate import Evaluator
from outrider.train.options import EvaluateOptions, RewardOptions
from outrider.train.ranks import Ranks
from small import ScriptedEngine, params

EMPTY = np.zeros(0, np.int32)
PROBLEMS = [Problem(f"p{i}", f"question {i}") for i in range(50)]

# Student's t, two-sided 95 %, as printed in every table: t[degrees of freedom]
T = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 7: 2.36462, 8: 2.30600}


def counts(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# Formulas


def test_reduction_by_the_tables_of_t():
    s_4, s_8 = math.sqrt(1 / 3), math.sqrt(8 / 28 * 3 * 5 / 8 / 2)  # k (n - k) / (n (n - 1)): 4/12 and 15/56
    assert s_8 == pytest.approx(math.sqrt(15 / 56))
    by_hand = [
        s_4 * (T[3] / 2 - T[4] / math.sqrt(5)),
        s_8 * (T[7] / math.sqrt(8) - T[8] / 3),
        math.sqrt(1 / 2) * (T[1] / math.sqrt(2) - T[2] / math.sqrt(3)),
    ]
    assert reduction(counts(2, 3, 1), counts(4, 8, 2), 0.95) == pytest.approx(by_hand, abs=1e-4)
    assert by_hand[0] == pytest.approx(0.202, abs=5e-4)


def test_alpha_read_as_a_quantile_makes_the_uncertainty_void():
    """0.525 is the quantile of a two-sided level of 0.05: a fortieth of the bonus, and the reason for the decision."""
    assert reduction(counts(2), counts(4), 0.05) == pytest.approx([0.0024], abs=5e-5)
    assert exploration_bonus(counts(4, 4), 32, 0.1) == pytest.approx([0.1 * math.sqrt(math.log(33) / 4)] * 2)
    assert exploration_bonus(counts(4), 32, 0.1)[0] == pytest.approx(0.094, abs=6e-4)
    assert exploration_bonus(counts(4), 128, 0.1)[0] == pytest.approx(0.110, abs=5e-4)


def test_one_rollout_counts_as_two_with_a_deviation_of_one_half():
    by_hand = 0.5 * (T[1] / math.sqrt(2) - T[2] / math.sqrt(3))
    assert reduction(counts(0, 1, 0), counts(1, 1, 0), 0.95) == pytest.approx([by_hand] * 3, abs=1e-4)


@given(st.integers(2, 64), st.data(), st.floats(0.01, 0.99))
def test_reduction_is_even_in_success_and_failure_and_zero_without_spread(n, data, confidence):
    k = data.draw(st.integers(0, n))
    one, other = reduction(counts(k, n - k), counts(n, n), confidence)
    assert one == other
    assert (one == 0) == (k in (0, n))
    assert one >= 0


# Apportioning

weights = st.lists(st.floats(0, 1e6), max_size=20)


@given(weights, st.integers(0, 5000))
def test_apportioning_spends_the_total_and_stays_within_one_of_the_quota(weights_P, total):
    given_P = apportion(weights_P, total, list(range(len(weights_P))))
    assert sum(given_P) == (total if weights_P else 0)
    exact_P = [Fraction(w) for w in weights_P] if any(weights_P) else [Fraction(1)] * len(weights_P)
    for got, weight in zip(given_P, exact_P, strict=True):
        assert abs(got - total * weight / sum(exact_P)) < 1 + 1e-9
        assert weight or not got


@given(weights, st.integers(0, 500), st.randoms(use_true_random=False))
def test_apportioning_permutes_with_its_weights(weights_P, total, random):
    order = list(range(len(weights_P)))
    random.shuffle(order)
    straight = apportion(weights_P, total, order)
    shuffled = apportion([weights_P[i] for i in order], total, [order[i] for i in order])
    assert shuffled == [straight[i] for i in order]


def test_remainders_by_hand():
    # 10 * (0.5, 0.3, 0.2) / 1.0 are whole; 7 gives 3.5, 2.1, 1.4: one is left and goes to .5
    assert apportion([0.5, 0.3, 0.2], 10, [0, 0, 0]) == [5, 3, 2]
    assert apportion([0.5, 0.3, 0.2], 7, [0, 0, 0]) == [4, 2, 1]
    assert apportion([1.0, 1.0, 1.0], 4, [2, 1, 0]) == [1, 1, 2]
    assert apportion([0.0, 0.0, 0.0], 5, [(1, "b"), (0, "c"), (1, "a")]) == [1, 2, 2]
    for broken in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            apportion([1.0, broken], 3, [0, 0])


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
    return made.judged(correct() if success else incorrect(), float(success))


class Run:
    """Steps of an explorer over scripted successes; remembers the requests of each round."""

    def __init__(self, stage: Stage, succeeds: Succeeds, base: int = 4, problems: Sequence[Problem] = PROBLEMS) -> None:
        self.stage, self.succeeds = stage, succeeds
        stream = ProblemStream(lambda index: problems[index % len(problems)])
        self.explorer = Explorer([Uniform(n=base), stage], stream, ScriptedEngine(), seed=1)
        self.rounds: list[list[SampleRequest]] = []

    def step(self, step: int, problems: int) -> list[Group]:
        self.rounds = []
        return self.explorer.explore(step, problems, self.draw)

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
            rollouts.append(one.judged(Verdict(Outcome.TIMEOUT, math.nan), math.nan) if mark == "!" else one)
        made.append(Group(problem, f"g:{problem.id}", tuple(rollouts)))
    return made


def plan(stage: Prioritise, groups: Sequence[Group], round: int = 0, seed: int = 0) -> dict[str, int]:
    view = View(list(groups), 1, round, 0.0, lambda n: [], ScriptedEngine(), seed)
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
    assert stage.metrics()["unspent"] == 0
    assert stage.metrics()["extra"] == extra


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
    assert stage.metrics()["unspent"] == 56


def test_verifier_errors_are_no_failures():
    assert plan(Prioritise(total=30, rounds=1), groups_of("++!!", "++++")) == {"p0": 11, "p1": 11}


def test_a_problem_whose_seeded_rollouts_are_kept_out_of_the_estimate():
    """Pooled, two plain failures and two seeded successes are as uncertain as can be; alone, the failures agree."""
    groups = groups_of("--SS", "++--")
    assert plan(Prioritise(total=28, rounds=1), groups) == {"p0": 10, "p1": 10}
    apart = plan(Prioritise(total=28, rounds=1, pool_seeded=False), groups)
    bonus = 0.1 * math.sqrt(math.log(21) / 4)  # by all four rollouts of either
    delta = math.sqrt(1 / 3) * (T[3] / 2 - T[4] / math.sqrt(5))
    assert apart["p0"] == round(20 * bonus / (delta + 2 * bonus))


def test_branches_and_dropped_groups():
    """A branch counts in the total and not in the estimate; a group that is left out gets nothing."""
    groups = groups_of("++--", "----", "+-+-")
    lone = groups[1].rollouts[0]
    branch = replace(lone, member=4, parent=lone.id, prefix_ids=lone.token_ids).judged(correct(), 1.0)
    groups[1] = groups[1].joined([branch])
    groups[2] = groups[2].left_out("other: reason")
    got = plan(Prioritise(total=13 + 20, rounds=1, bonus=0.0), groups)
    assert got == {"p0": 20}
    assert plan(Prioritise(total=33, rounds=1), [g.left_out("other: reason") for g in groups]) == {}


def test_a_total_that_leaves_nothing_is_refused():
    run = Run(Prioritise(total=64), lambda request, member: False)
    with pytest.raises(UserError, match=r"total is 64 .* drawn 64 for 16 problems, so none is left"):
        run.step(1, 16)
    assert len(run.rounds) == 1
    with pytest.raises(UserError, match="none has any yet: put uniform before it"):
        Explorer([Prioritise()], ProblemStream(PROBLEMS.__getitem__), ScriptedEngine(), 0).explore(1, 3, run.draw)
    assert Run(Prioritise(), lambda request, member: False).step(1, 0) == []


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
    stage.observe(grown)
    assert stage.metrics() == {
        "extra": 15,
        "extra_unsolved": 3,
        "extra_solved": 3,
        "unspent": 0,
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
    assert run.explorer.metrics()["explore/1-prioritise/unseeded"] == 4  # p1, with an empty corpus
    run.step(2, 2)
    seeds = [{r.problem.id: r.context for r in requests} for requests in run.rounds]
    assert seeds[1] == {"p0": Context(), "p1": Context("seeded", ("p0",), "as_generated")}
    assert seeds[2] == {"p0": Context(), "p1": Context()}
    metrics = {key.rpartition("/")[2]: value for key, value in run.explorer.metrics().items()}
    assert (metrics["seeded"], metrics["unseeded"], metrics["fewer"], metrics["rescued"]) == (2, 0, 2, 1)
    assert (metrics["corpus"], metrics["corpus_seeded"]) == (2, 1)


def test_a_resumed_run_plans_as_the_uninterrupted_one():
    def succeeds(request: SampleRequest, member: int) -> bool:
        return (int(request.problem.id[1:]) * 7 + member) % 5 == 0

    def fresh() -> Run:
        return Run(Prioritise(total=60, bonus=1.0, seed=Seed(k=3)), succeeds, problems=PROBLEMS[:30])

    def plans(run: Run) -> list[tuple[object, ...]]:
        return [(r.problem.id, r.n, r.context) for requests in run.rounds for r in requests]

    whole = fresh()
    for step in range(1, 5):
        whole.step(step, 8)
    state = whole.explorer.state_dict()
    resumed = fresh()
    resumed.explorer.load_state_dict(state)
    for step in range(5, 8):
        whole.step(step, 8)
        resumed.step(step, 8)
        assert plans(resumed) == plans(whole)
        assert any(r.context.kind == "seeded" for r in whole.rounds[1])
    assert resumed.explorer.metrics() == whole.explorer.metrics()
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


class Judge:
    def verify_all(self, items: Sequence[object]) -> list[Verdict]:
        return [incorrect() for _ in items]


def test_an_evaluation_sees_no_example():
    """It asks the tokenizer for each problem's own prompt and consults no stage."""
    sampler, engine = Listening(), ScriptedEngine()
    collect = Collector(sampler, Judge(), RewardOptions(), Ranks(0, 1), Clock())  # type: ignore[arg-type]
    Evaluator(PROBLEMS[:5], engine.encode, collect, EvaluateOptions(problems=5, n=2, bootstrap=10), params()).run()
    asked = [(r.context, r.prompt_ids.tolist()) for r in sampler.asked]
    assert len(asked) == 10  # samples and greedy
    assert set(map(str, asked)) == {str((Context(), engine.encode(PROBLEMS[0]).tolist()))}
