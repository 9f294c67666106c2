"""The rules that every stage keeps, as one matrix of stages and situations.

A new stage joins by an entry in ``stage_cases.CASES``; one without fails ``test_every_stage_is_in_the_matrix``. Stages
run as in life: under an explorer, after another stage if they need one, for several steps over a pool of problems that
come back.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import numpy as np
import pytest
from pydantic import PrivateAttr, TypeAdapter
from stage_cases import CASES, EVERY, Case
from worked_steps import check_by_hand

from outrider.components import ComponentOf
from outrider.explore import (
    STAGES,
    Branch,
    Commit,
    Cures,
    EntropyBranch,
    Invest,
    Knapsack,
    Prefixed,
    Prioritise,
    Rebalance,
    Refill,
    Stage,
    Uniform,
    View,
    Vip,
)
from outrider.explore.apportion import apportion, raised
from outrider.explore.bounds import bounds_after
from outrider.explore.choose import token_value
from outrider.explore.cures import share_out
from outrider.explore.greedy import Greedy as GreedyStage
from outrider.explore.knapsack import enough
from outrider.explore.outcome import outcome
from outrider.explore.rate import Rate
from outrider.explore.rebalance import rollouts_wanted
from outrider.explore.select import SELECTORS
from outrider.explore.stage import PlansAhead
from outrider.record import Group, Rollout, SampleRequest
from outrider.testing import LawError
from outrider.testing.law import breaks
from outrider.testing.scripted import STEPS, ScriptedRun
from outrider.testing.situations import SITUATIONS, Ragged, Situation
from outrider.testing.stages import (
    STAGE_LAWS,
    Life,
    StageClaims,
    check_bounds,
    follows_success_and_not_reward,
    gives_nothing_to_what_is_excluded,
    gives_reasons,
    ignores_the_order_of_problems,
    keeps_its_budget,
    keeps_plain_state,
    names_its_metrics,
    plans_ahead_if_it_says_so,
    problem_at,
    resumes,
)


@lru_cache(maxsize=1)
def rollouts_of(situation: Situation) -> dict[tuple[Any, ...], Rollout]:
    """Those that any stage has drawn in a situation, which most tests ask for again."""
    return {}


# The stages as components of a recipe


def test_every_stage_is_in_the_matrix():
    seen = {type(case.stage()) for case in CASES.values()}
    missing = [name for name, stage in STAGES.items() if stage not in seen]
    assert not missing, f"{', '.join(missing)}: named in explore/__init__.py, but without an entry in stage_cases.py"


def test_every_selector_is_in_the_matrix():
    seen = {type(stage.select) for case in CASES.values() if isinstance(stage := case.stage(), Branch)}
    missing = [name for name, selector in SELECTORS.items() if selector not in seen]
    assert not missing, f"{', '.join(missing)}: named in explore/select/__init__.py, but in no entry of stage_cases.py"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_stage_does_what_was_worked_by_hand(case):
    assert case.by_hand
    for worked in case.by_hand:
        check_by_hand(case.stage(), worked)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_a_component_with_few_options_that_say_what_they_are(name):
    options = STAGES[name].model_fields
    assert len(options) <= 8
    assert [key for key, option in options.items() if not option.description] == []
    assert STAGES[name].__doc__


@pytest.mark.parametrize("name", STAGES)
def test_every_option_is_set_in_an_example(name):
    """To something else than its default, and every one of named values: or nobody would see that it does nothing."""
    examples = [stage for case in CASES.values() if type(stage := case.stage()) is STAGES[name]]
    for key, option in STAGES[name].model_fields.items():
        given = [getattr(example, key) for example in examples]
        assert any(value != option.default for value in given), f"no example in stage_cases.py sets {key}"
        named = get_args(option.annotation) if get_origin(option.annotation) is Literal else ()
        assert set(named) <= set(given if named else ()), f"no example in stage_cases.py has every {key} of {named}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_stage_survives_being_written_as_a_recipe(case):
    recipe = TypeAdapter(Annotated[Stage, ComponentOf(STAGES, "stage", Stage)])
    written = json.loads(json.dumps(recipe.dump_python(case.stage(), mode="json")))
    assert recipe.validate_python(written) == case.stage()


# The matrix: each law is a function of a life in outrider.testing.stages, so that it can be shown to be broken


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_a_stage_keeps_every_law(case, situation):
    life = Life(case.claims, situation, rollouts_of(situation))
    for name, law in STAGE_LAWS.items():
        with breaks(name):
            law(life)


@pytest.mark.parametrize("name", ["uniform", "branch"])
def test_the_situation_with_turns_holds_every_kind_of_rollout(name):
    """Observed tokens at each end and in between, one turn, many turns, and nothing but observed ones."""
    stages = [Ragged(), Branch(which="all", segment=EVERY, branches=2)] if name == "branch" else [Ragged()]
    drawn = [r for groups in ScriptedRun(stages, SITUATIONS["turns"]).steps(STEPS) for g in groups for r in g.rollouts]
    own = [r.trainable_T for r in drawn if bool(r.branch_at) == (name == "branch") and r.trainable_T is not None]
    assert len(own) < len(drawn), "one turn, without a word of the environment"
    assert any(not flags[0] and flags[1:].all() for flags in own)
    assert any(not flags[-1] and flags[:-1].all() for flags in own)
    assert any(flags[0] and flags[-1] and not flags[1:-1].any() for flags in own)
    assert any(np.abs(np.diff(flags.astype(int))).sum() > 5 for flags in own), "many turns"
    assert any(not flags.any() for flags in own), "only observes"


BEHIND = {  # stages whose rollouts depend on what they find
    "nothing": list,
    "uniform": lambda: [Uniform(n=4)],
    "cures": lambda: [Cures(n=4, min_n=2, max_n=7)],
    "knapsack": lambda: [Knapsack(n=4, max_n=7, known=2)],
    "invest": lambda: [Invest(n=4, max_n=7)],
    "greedy": lambda: [Uniform(n=4), GreedyStage(max_tokens=8)],
    "branch": lambda: [Uniform(n=4), Branch(which="all", segment=EVERY, branches=2)],
    "entropy_branch": lambda: [Uniform(n=4), EntropyBranch(segment=EVERY, tokens=2, total=7)],
    "rebalance": lambda: [Uniform(n=4), Rebalance(n_max=8)],
    "refill": lambda: [Uniform(n=4), Refill(attempts=2, surplus="keep", target=9)],
    "commit": lambda: [Uniform(n=4), Commit(n=3, target=3)],
    "vip": lambda: [Vip(n=4, max_n=7)],
    "prefixed": lambda: [Uniform(n=3), Prefixed(n=2)],
    "prioritise": lambda: [Uniform(n=3), Prioritise(total=33)],
}


PAIRS = {
    f"{name} behind {before}": (case, BEHIND[before])
    for before, (name, case) in itertools.product(BEHIND, CASES.items())
    if case.first or before != "nothing"
}


@pytest.mark.parametrize(("case", "before"), PAIRS.values(), ids=PAIRS)
def test_the_bounds_of_a_step_hold_behind_every_stage(case, before):
    situation = SITUATIONS["even groups"]
    stages = [*before(), case.stage()]
    bounds = bounds_after(stages, situation.problems)
    run = ScriptedRun(stages, situation, train=problem_at, known=rollouts_of(situation))
    for groups in run.steps(4):  # all problems, and some of them again
        check_bounds(bounds, sum(g.size for g in groups))


# Each rule is broken once on purpose


class Spendthrift(Stage):
    """A rollout too many."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=2 + (i == 0)) for i, g in enumerate(view.groups)]


class Generous(Stage):
    """Forgets that a group may have been excluded."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1) for g in view.groups]


class Moody(Stage):
    """Draws from outside the run."""

    moods: ClassVar[Iterator[int]] = itertools.count()

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1 + next(self.moods) % 5) for g in view.groups]


class Rash(PlansAhead, Stage):
    """Says that it plans ahead, and gives more to what failed."""

    def plan(self, view: View) -> list[SampleRequest]:
        failed = [g for g in view.groups if g.size and not any(r.success for r in g.rollouts)]
        return [] if view.round else [SampleRequest(g.problem, n=1) for g in failed]


class Regretful(PlansAhead, Ragged):
    """Says that it plans ahead, and leaves out what failed."""

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        failed = [g for g in groups if not any(r.success for r in g.rollouts)]
        return {g.id: "regretful: failed" for g in failed}


class Forgetful(Stage):
    """Plans by what it has seen and saves none of it."""

    _seen: int = PrivateAttr(0)

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1 + self._seen % 5) for g in view.groups]

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        self._seen += len(groups)
        return {}


class Greedy(Stage):
    """More where rewards are positive; drops the rest without a name."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1) for g in view.groups if self.rich(g)]

    def rich(self, group: Group) -> bool:
        return sum(r.reward for r in group.rollouts) > 0

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {g.id: "poor" for g in groups if not self.rich(g)}

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        return {f"step {id(self)}": 1}

    def state_dict(self) -> dict[str, Any]:
        return {"pair": (1, 2)}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Spendthrift, keeps_its_budget),
        (Spendthrift, ignores_the_order_of_problems),
        (Generous, gives_nothing_to_what_is_excluded),
        (Moody, follows_success_and_not_reward),
        (Rash, plans_ahead_if_it_says_so),
        (Regretful, plans_ahead_if_it_says_so),
        (Forgetful, resumes),
        (Greedy, follows_success_and_not_reward),
        (Greedy, gives_reasons),
        (Greedy, names_its_metrics),
        (Greedy, keeps_plain_state),
    ],
)
def test_a_stage_that_breaks_a_rule_is_found(broken, rule):
    life = Life(StageClaims(broken, lambda sizes: 2 * len(sizes)), SITUATIONS["half excluded"])
    with pytest.raises(LawError):
        rule(life)


# Stages that are wrong, as a slip of the pen would make them: each is caught without a test of its own


MISTAKES = {
    "rebalance: hardest and easiest mixed up": (
        "rebalance",
        "outrider.explore.rebalance.rollouts_wanted",
        lambda n, successes, schedule, std=False: rollouts_wanted(n, n - successes, schedule, std),
    ),
    "rebalance: the cap rounds down": (
        "rebalance, falling",
        "outrider.explore.rebalance.Rebalance.cap",
        lambda self, progress: int(self.n_max + ((self.n_max_end or self.n_max) - self.n_max) * progress),
    ),
    "rebalance: a cap that goes the other way": (
        "rebalance, rising",
        "outrider.explore.rebalance.Rebalance.cap",
        lambda self, progress: int(self.n_max + ((self.n_max_end or self.n_max) - self.n_max) * (1 - progress) + 0.5),
    ),
    "prioritise: the normal quantile for Student's": (
        "prioritise",
        "outrider.explore.prioritise.reduction",
        lambda successes_P, n_P, confidence: (
            1.96 * np.sqrt(successes_P * (n_P - successes_P)) / n_P * (1 / np.sqrt(n_P) - 1 / np.sqrt(n_P + 1))
        ),
    ),
    "prioritise: a bonus without its logarithm": (
        "prioritise",
        "outrider.explore.prioritise.exploration_bonus",
        lambda n_P, pulls, weight: weight * np.sqrt(pulls / n_P),
    ),
    "prioritise: equals by their place": (
        "prioritise",
        "outrider.explore.prioritise.apportion",
        lambda weights, total, ties: apportion(weights, total, list(range(len(weights)))),
    ),
    "cures: the most likely pass rate": (
        "cures",
        "outrider.explore.cures.Cures.weight",
        lambda self, key: (
            0.01 + np.sqrt(np.prod(self._evidence.get(key, (1, 1)))) / sum(self._evidence.get(key, (1, 1)))
        ),
    ),
    "cures: equals by their place": (
        "cures",
        "outrider.explore.cures.share_out",
        lambda weights, total, bounds, ties: share_out(weights, total, bounds, list(range(len(weights)))),
    ),
    "choose: the chance of success for its variance": (
        "choose",
        "outrider.explore.choose.token_value",
        lambda expected, k: expected.rate.mean / (expected.noise * expected.tokens),
    ),
    "choose: the same for the best of any k": (
        "choose, best of two",
        "outrider.explore.choose.token_value",
        lambda expected, k: expected.rate.moment(1, 1) / (expected.noise * expected.tokens),
    ),
    "choose: no floor": (
        "choose, seldom",
        "outrider.explore.choose.Choose.chance",
        lambda self, problem: min(1.0, token_value(self._model.predict(problem)) * 8 / self.enough),
    ),
    "commit: the ends of the band are outside": (
        "commit",
        "outrider.explore.commit.Commit.fate",
        lambda self, group: "too hard" if sum(r.success for r in group.rollouts) / group.size <= self.low else "",
    ),
    "commit: the first of the batch": (
        "commit",
        "outrider.explore.commit.identity_seed",
        lambda *words: 0,
    ),
    "knapsack: the chance of a mixed group alone": (
        "knapsack",
        "outrider.explore.knapsack.value",
        lambda n, p: 1 - p**n - (1 - p) ** n,
    ),
    "knapsack: enough counts the floor": (
        "knapsack, to spare",
        "outrider.explore.knapsack.enough",
        lambda p, chance, most: enough(p, chance, most) - 1,
    ),
    "knapsack: equals by their place": (
        "knapsack, to spare",
        "outrider.explore.knapsack.raised",
        lambda counts, total, most, gain, ties, among=None: raised(
            counts, total, most, gain, list(range(len(counts))), among
        ),
    ),
    "invest: the deviation for the variance": (
        "invest",
        "outrider.explore.invest.spread",
        lambda rate, n, k: (rate.a * rate.b) ** 0.5 / (rate.a + rate.b) * n / (n - 1),
    ),
    "invest: the goal of one sample": (
        "invest, the best of two",
        "outrider.explore.invest.spread",
        lambda rate, n, k: rate.moment(1, 1) * n / (n - 1),
    ),
    "invest: equals by their place": ("invest", "outrider.explore.invest.identity_seed", lambda *words: 0),
    "invest: of a level alone": (
        "invest",
        "outrider.explore.pass_rate_model.PassRateModel._rate",
        lambda self, problem, which: self._levels[problem.level][which].prior if self._levels else Rate(1.0, 1.0),
    ),
    "vip: the deviation for the variance": (
        "vip",
        "outrider.explore.vip.variance",
        lambda n, p, estimator: (p * (1 - p)) ** 0.5 / (n - 1),
    ),
    "vip: equals by their place": (
        "vip",
        "outrider.explore.vip.raised",
        lambda counts, total, most, gain, ties: raised(counts, total, most, gain, list(range(len(counts)))),
    ),
    "prefixed: for problems that are solved": ("prefixed", "outrider.explore.prefixed.pass_rate", lambda group: 0.0),
    "skip: no floor": ("skip", "outrider.explore.skip.Skip.chance", lambda self, visits: self.keep**visits),
    "skip: one visit too many": (
        "skip",
        "outrider.explore.skip.Skip.chance",
        lambda self, visits: max(self.keep ** (visits + 1), self.floor),
    ),
    "refill: the share of the mixed without the rule of succession": (
        "refill to a target",
        "outrider.explore.refill.Refill.problems",
        lambda self, missing, mixed, sampled: min(-(-missing * sampled // max(mixed, 1)), self.oversample * missing),
    ),
    "refill: what ran out of tokens is unsolved": (
        "refill, few wanted",
        "outrider.explore.refill._reason",
        lambda group: outcome(group),
    ),
    "branch: failure by reward": (
        "branch",
        "outrider.explore.branch.Branch._admitted",
        lambda self, group, by_id, seed: [r for r in group.rollouts if not r.reward > 0],
    ),
    "branch: of what an earlier stage excluded": ("branch", "outrider.explore.branch.trainable", lambda rollout: True),
    "branch: at the least surprising": (
        "branch at surprises",
        "outrider.explore.select.top.Surprisal.signal",
        lambda self, rollout: rollout.logprobs_T,
    ),
    "branch: at surprise for entropy": (
        "branch at entropy",
        "outrider.explore.select.top.Entropy.signal",
        lambda self, rollout: -rollout.logprobs_T,
    ),
    "branch: one segment too far ahead": (
        "branch by attention",
        "outrider.explore.select.attention.Attention.influence",
        lambda self, paid_HSS: np.array(
            [paid_HSS[:, i + self.ahead + 1 :, i].sum(1).max() for i in range(paid_HSS.shape[1])]
        ),
    ),
    "branch: a minority that is drawn": (
        "branch by accuracy",
        "outrider.explore.branch.by_accuracy",
        lambda roots, seed: roots[: len(roots) // 2],
    ),
    "entropy_branch: the start by its first token": (
        "entropy_branch, threshold",
        "outrider.explore.entropy_branch.EntropyBranch._entropy",
        lambda self, rollout, at, by_id: float(
            rollout.entropies_T[at - rollout.branch_at :][: self.tokens if at else 1].mean()
        ),
    ),
}


@pytest.mark.parametrize(("name", "target", "wrong"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_caught_without_a_test_of_its_own(name, target, wrong, monkeypatch):
    monkeypatch.setattr(target, wrong)
    with pytest.raises(AssertionError):
        keeps_every_rule(CASES[name], ("half excluded", "some unscorable", "even groups"))


def keeps_every_rule(case: Case, situations: Sequence[str]) -> None:
    for worked in case.by_hand:
        check_by_hand(case.stage(), worked)
    for situation in situations:
        life = Life(case.claims, SITUATIONS[situation])
        for law in STAGE_LAWS.values():
            law(life)
