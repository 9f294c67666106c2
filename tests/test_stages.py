"""The rules that every stage keeps, as one matrix of stages and situations.

A new stage joins by three lines in ``CASES``; a stage without a line fails ``test_every_stage_is_in_the_matrix``.
Stages run as in life: under an explorer, after another stage if they need one, for several steps over a pool of
problems that come back.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest
from pydantic import PrivateAttr, TypeAdapter

from outrider.explore import (
    STAGES,
    Branch,
    Cures,
    EntropyBranch,
    Prioritise,
    Rebalance,
    Refill,
    Seed,
    Skip,
    Stage,
    Uniform,
    View,
)
from outrider.pieces import PieceOf
from outrider.record import Group, Outcome, SampleRequest
from scripted import POOL, STEPS, Ragged, Run, World, always, by_rate, perverse, with_errors

Sizes = Sequence[int]

EVERY = {"chunk": {"tokens": 1}}
STEP = {"delimiter": {"marks": ["\n\n"]}}


class Case(NamedTuple):
    """A stage and its promise.

    Attributes:
        stage: makes a fresh one.
        budget: the rollouts it asks for in a step, from the sizes of the groups that it finds; the most it may ask
            for, unless ``exact``.
        exact: it asks for no fewer either.
        first: it samples problems that have no rollouts. Any other stage finds groups that have some.
    """

    stage: Callable[[], Stage]
    budget: Callable[[Sizes], int]
    exact: bool = False
    first: bool = False


CASES = {
    "uniform": Case(lambda: Uniform(n=3), lambda sizes: 3 * len(sizes), exact=True, first=True),
    "cures": Case(lambda: Cures(n=5, min_n=2, max_n=9), lambda sizes: 5 * len(sizes), exact=True, first=True),
    "cures that forgets": Case(lambda: Cures(n=4, memory=0.3), lambda sizes: 4 * len(sizes), exact=True, first=True),
    "prioritise": Case(lambda: Prioritise(total=60), lambda sizes: 60 - sum(sizes) if sizes else 0, exact=True),
    "prioritise, seeding": Case(
        lambda: Prioritise(total=90, rounds=3, cumulative=True, bonus=1.0, pool_seeded=False, seed=Seed(capacity=20)),
        lambda sizes: 90 - sum(sizes) if sizes else 0,
        exact=True,
    ),
    "prioritise, unsolved": Case(lambda: Prioritise(total=60, skip_solved=True), lambda sizes: 60 - sum(sizes)),
    "rebalance": Case(lambda: Rebalance(n_max=16), lambda sizes: sum(16 - n for n in sizes)),
    "rebalance, falling": Case(
        lambda: Rebalance(schedule="et", std=True, n_max=12, n_max_end=7), lambda sizes: sum(12 - n for n in sizes)
    ),
    "refill": Case(lambda: Refill(attempts=2, oversample=2), lambda sizes: 4 * len(sizes) * max(sizes, default=0)),
    "refill, few wanted": Case(lambda: Refill(target=2, n=3, attempts=1), lambda sizes: 3 * 2 * 3),
    "refill, only drop": Case(lambda: Refill(attempts=0), lambda sizes: 0, exact=True),
    "skip": Case(lambda: Skip(), lambda sizes: 0, exact=True),
    "branch": Case(lambda: Branch(segment=STEP, pivots=2, branches=3), lambda sizes: 2 * 3 * sum(sizes)),
    "branch, capped": Case(lambda: Branch(which="all", segment=EVERY, branches=3, cap=10), lambda sizes: 9),
    "branch at surprises": Case(
        lambda: Branch(which="all", segment=EVERY, select="surprisal", pivots=2, branches=2, rounds=2, stream="main"),
        lambda sizes: 2 * 2 * 2 * sum(sizes),
    ),
    "branch at entropy": Case(
        lambda: Branch(segment=EVERY, select="entropy", branches=2), lambda sizes: 2 * sum(sizes)
    ),
    "branch by attention": Case(
        lambda: Branch(which="by_accuracy", segment=STEP, select="attention", pivots=2, branches=2),
        lambda sizes: 4 * sum(sizes),
    ),
    "branch anywhere": Case(  # half of the first round may be new trees
        lambda: Branch(which="all", segment=STEP, select="uniform", branches=1, rounds=2), lambda sizes: 3 * sum(sizes)
    ),
    "branch at boundaries": Case(
        lambda: Branch(
            which="all", segment=EVERY, select={"boundary": {"depth": 2, "width": 9}}, pivots=9, branches=1, rounds=3
        ),
        lambda sizes: sum(9 - n for n in sizes),
        exact=True,
    ),
    "branch at the prompt": Case(lambda: Branch(select="root", branches=2), lambda sizes: 2 * sum(sizes)),
    "entropy_branch": Case(
        lambda: EntropyBranch(segment=EVERY, tokens=2, total=9), lambda sizes: sum(9 - n for n in sizes), exact=True
    ),
    "entropy_branch, threshold": Case(
        lambda: EntropyBranch(segment=STEP, threshold=0.6, branches=2, total=8),
        lambda sizes: sum(8 - n for n in sizes),
        exact=True,
    ),
}


WORLDS = {
    "even groups": World(6, lambda: Uniform(n=4), by_rate),
    "ragged groups": World(6, Ragged, by_rate),
    "groups of one": World(5, lambda: Uniform(n=1), by_rate),
    "one problem": World(1, Ragged, by_rate),
    "empty batch": World(0, Ragged, by_rate),
    "all solved": World(5, Ragged, always(Outcome.CORRECT)),
    "all failed": World(5, Ragged, always(Outcome.INCORRECT)),
    "all truncated": World(5, Ragged, always(Outcome.INCORRECT), truncated=True),
    "all unscorable": World(4, Ragged, always(Outcome.TIMEOUT)),
    "some unscorable": World(6, Ragged, with_errors),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)


def begin(case: Case, world: World, **rest: Any) -> Run:
    return Run([case.stage()] if case.first else [world.before(), case.stage()], world, **rest)


# The stages as pieces of a recipe


def test_every_stage_is_in_the_matrix():
    assert {type(case.stage()) for case in CASES.values()} == set(STAGES.values())


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_a_piece_with_few_options_that_say_what_they_are(name):
    options = STAGES[name].model_fields
    assert len(options) <= 8
    assert [key for key, option in options.items() if not option.description] == []
    assert STAGES[name].__doc__


@every_case
def test_a_stage_survives_being_written_as_a_recipe(case):
    recipe = TypeAdapter(Annotated[Stage, PieceOf(STAGES, "stage")])
    written = json.loads(json.dumps(recipe.dump_python(case.stage(), mode="json")))
    assert recipe.validate_python(written) == case.stage()


# The matrix: each rule is a function that fails by an assertion, so that it can be shown to fail


def check_budget(case: Case, world: World) -> None:
    run = begin(case, world)
    for _ in range(STEPS):
        groups = run.next()
        asked = sum(d[1] for d in run.plans[-1])
        assert asked == sum(r.stage == run.name for g in groups for r in g.rollouts), "what is asked for joins"
        found = [sum(r.stage != run.name for r in g.rollouts) for g in groups]
        sizes = [0] * world.problems if case.first else [n for n in found if n]
        assert asked <= case.budget(sizes)
        if case.exact:
            assert asked == case.budget(sizes)


def check_determinism(case: Case, world: World) -> None:
    one, two = begin(case, world), begin(case, world)
    for a, b in zip(one.steps(STEPS), two.steps(STEPS), strict=True):
        assert [g.id for g in a] == [g.id for g in b]
    assert one.plans == two.plans
    assert json.dumps(one.explorer.state_dict()) == json.dumps(two.explorer.state_dict())


def check_order_of_problems(case: Case, world: World) -> None:
    """From the same state, a batch in another order: every problem gets what it got."""
    before = begin(case, world)
    before.steps(STEPS - 1)
    state, start = before.explorer.state_dict(), before.explorer.stream.position
    fates = []
    for order in (range(world.problems), reversed(range(world.problems)), np.roll(range(world.problems), 2)):
        places = {start + i: start + int(j) for i, j in enumerate(order)}
        run = begin(case, world, step=before.step, train=lambda i, places=places: POOL[places.get(i, i) % len(POOL)])
        run.explorer.load_state_dict(json.loads(json.dumps(state)))
        fates.append(run.fates(run.next()))
    assert fates[1] == fates[0]
    assert fates[2] == fates[0]


def check_resume(case: Case, world: World) -> None:
    """Killed between steps, the run goes on as if it had not been."""
    whole = begin(case, world)
    metrics, states = [], []
    for _ in range(STEPS):
        states.append(json.dumps(whole.explorer.state_dict()))
        whole.next()
        metrics.append(json.dumps(whole.explorer.metrics()))
    for at in (STEPS // 2, STEPS - 1):
        resumed = begin(case, world, step=at)
        resumed.explorer.load_state_dict(json.loads(states[at]))
        assert json.dumps(resumed.explorer.state_dict()) == states[at]
        for step in range(at, STEPS):
            resumed.next()
            assert json.dumps(resumed.explorer.metrics()) == metrics[step]
        assert resumed.plans == whole.plans[at:]


def check_plain_state(case: Case, world: World) -> None:
    run = begin(case, world)
    run.steps(STEPS)
    assert json.loads(json.dumps(run.stage.state_dict())) == run.stage.state_dict()


def check_rewards_unread(case: Case, world: World) -> None:
    """Success is the verdict: rewards that say the opposite change nothing."""
    plain, shaped = begin(case, world), begin(case, world, reward=perverse)
    for a, b in zip(plain.steps(STEPS), shaped.steps(STEPS), strict=True):
        assert [[r.unused for r in g.rollouts] for g in a] == [[r.unused for r in g.rollouts] for g in b]
    assert plain.plans == shaped.plans


def check_reasons(case: Case, world: World) -> None:
    """What is left out says which stage did it, and one reason holds for a whole group."""
    for groups in begin(case, world).steps(STEPS):
        for group in groups:
            reasons = {r.unused for r in group.rollouts} - {""}
            assert len(reasons) <= 1
            assert all(reason.startswith(f"{type(case.stage()).__name__.lower()}: ") for reason in reasons)


def check_metrics(case: Case, world: World) -> None:
    """The same names in every step of every situation, and numbers."""
    run, usual = begin(case, world), begin(case, WORLDS["ragged groups"])
    usual.next()
    for _ in range(3):
        run.next()
        assert run.stage.metrics().keys() == usual.stage.metrics().keys()
        assert all(type(value) is float for value in run.stage.metrics().values())


RULES = (
    check_budget,
    check_determinism,
    check_order_of_problems,
    check_resume,
    check_plain_state,
    check_rewards_unread,
    check_reasons,
    check_metrics,
)


@every_case
@every_world
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(case, world, rule):
    rule(case, world)


# Each rule is broken once on purpose


class Spendthrift(Stage):
    """A rollout too many."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=2 + (i == 0)) for i, g in enumerate(view.groups)]


class Moody(Stage):
    """Draws from outside the run."""

    moods: ClassVar[Iterator[int]] = itertools.count()

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1 + next(self.moods) % 5) for g in view.groups]


class Forgetful(Stage):
    """Plans by what it has seen and saves none of it."""

    _seen: int = PrivateAttr(0)

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1 + self._seen % 5) for g in view.groups]

    def observe(self, groups: Sequence[Group]) -> None:
        self._seen += len(groups)


class Greedy(Stage):
    """More where rewards are positive; drops the rest without a name."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1) for g in view.groups if self.rich(g)]

    def rich(self, group: Group) -> bool:
        return sum(r.reward for r in group.rollouts) > 0

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {g.id: "poor" for g in groups if not self.rich(g)}

    def metrics(self) -> dict[str, float]:
        return {f"step {id(self)}": 1}

    def state_dict(self) -> dict[str, Any]:
        return {"pair": (1, 2)}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Spendthrift, check_budget),
        (Spendthrift, check_order_of_problems),
        (Moody, check_determinism),
        (Forgetful, check_resume),
        (Greedy, check_rewards_unread),
        (Greedy, check_reasons),
        (Greedy, check_metrics),
        (Greedy, check_plain_state),
    ],
)
def test_a_stage_that_breaks_a_rule_is_found(broken, rule):
    with pytest.raises(AssertionError):
        rule(Case(broken, lambda sizes: 2 * len(sizes)), WORLDS["ragged groups"])
