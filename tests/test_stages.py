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
    Bounds,
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
from outrider.explore.greedy import Greedy as GreedyStage
from outrider.explore.stage import bounds_after
from outrider.pieces import PieceOf
from outrider.record import Group, Outcome, SampleRequest
from scripted import POOL, STEPS, Halved, Ragged, Run, World, always, by_rate, perverse, with_errors

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
    "rebalance, rising": Case(lambda: Rebalance(n_max=8, n_max_end=14), lambda sizes: sum(14 - n for n in sizes)),
    "refill": Case(lambda: Refill(attempts=2, oversample=1), lambda sizes: 2 * len(sizes) * max(sizes, default=0)),
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
    "greedy": Case(lambda: GreedyStage(max_tokens=8), len, exact=True),
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
    "half left out": World(8, Halved, by_rate),
}

EPOCH = 20  # problems; a run of 8 steps has two or three epochs


# The stages as pieces of a recipe


def test_every_stage_is_in_the_matrix():
    assert {type(case.stage()) for case in CASES.values()} == set(STAGES.values())


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_a_piece_with_few_options_that_say_what_they_are(name):
    options = STAGES[name].model_fields
    assert len(options) <= 8
    assert [key for key, option in options.items() if not option.description] == []
    assert STAGES[name].__doc__


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_stage_survives_being_written_as_a_recipe(case):
    recipe = TypeAdapter(Annotated[Stage, PieceOf(STAGES, "stage")])
    written = json.loads(json.dumps(recipe.dump_python(case.stage(), mode="json")))
    assert recipe.validate_python(written) == case.stage()


# The matrix: each rule is a function of a life, and fails by an assertion, so that it can be shown to fail


class Life:
    """A run of a stage in a world, looked at by every rule.

    ``states[i]`` is the explorer's state after ``i`` steps, ``groups[i]`` and ``metrics[i]`` are those of the step
    after it.
    """

    def __init__(self, case: Case, world: World) -> None:
        self.case, self.world, self.run = case, world, self.begin(case, world)
        self.states, self.groups, self.metrics = [self.state(self.run)], [], []
        for _ in range(STEPS):
            self.groups.append(self.run.next())
            self.metrics.append(self.run.metrics)
            self.states.append(self.state(self.run))

    @staticmethod
    def begin(case: Case, world: World, **rest: Any) -> Run:
        stages = [case.stage()] if case.first else [world.before(), case.stage()]
        return Run(stages, world, **{"train": lambda i: POOL[i % EPOCH], **rest})

    def again(self, after: int = 0, **rest: Any) -> Run:
        """Another run of a fresh stage, killed and resumed after so many steps."""
        run = self.begin(self.case, self.world, step=after, **rest)
        run.explorer.load_state_dict(json.loads(self.states[after]))
        assert self.state(run) == self.states[after]
        return run

    @staticmethod
    def state(run: Run) -> str:
        return json.dumps(run.explorer.state_dict())


def left_out(steps: Sequence[Sequence[Group]]) -> list[list[tuple[str, list[str]]]]:
    return [[(g.id, [r.unused for r in g.rollouts]) for g in groups] for groups in steps]


def check_budget(life: Life) -> None:
    dropping = life.world.before is Halved
    for groups, plan in zip(life.groups, life.run.plans, strict=True):
        asked = sum(d[1] for d in plan)
        assert asked == sum(r.stage == life.run.name for g in groups for r in g.rollouts), "what is asked for joins"
        found = [sum(r.stage != life.run.name for r in g.rollouts) for g in groups]
        sizes = [0] * life.world.problems if life.case.first else [n for n in found if n]
        assert asked <= life.case.budget(sizes)
        if not life.case.first:
            most = None if dropping else sum(found)  # what the bounds say behind a stage that drops
            known = Bounds(sum(found), most, (min(found, default=0), max(found, default=0)))
            check_bounds(life.run.stage.bounds(known, life.world.problems), sum(found) + asked)
        if life.case.exact and not dropping:
            assert asked == life.case.budget(sizes)


def check_bounds(bounds: Bounds, rollouts: int) -> None:
    assert bounds.fewest <= rollouts
    assert bounds.most is None or rollouts <= bounds.most


def check_determinism(life: Life) -> None:
    run = life.again()
    assert left_out(run.steps(STEPS)) == left_out(life.groups)
    assert run.plans == life.run.plans
    assert life.state(run) == life.states[-1]


def check_order_of_problems(life: Life) -> None:
    """From the state before every step, a batch in another order: every problem gets what it got."""
    n = life.world.problems
    for step in range(STEPS):
        start, fates = json.loads(life.states[step])["stream"]["position"], []
        for order in (range(n), np.roll(range(n), 2) if step % 2 else reversed(range(n))):
            places = {start + i: start + int(j) for i, j in enumerate(order)}
            run = life.again(step, train=lambda i, places=places: POOL[places.get(i, i) % EPOCH])
            fates.append(run.fates(run.next()))
        assert fates[1] == fates[0]


def check_what_is_left_out_gets_nothing(life: Life) -> None:
    """No rollout for a problem that an earlier stage has left out of the step: it would teach nothing."""
    before = type(life.world.before()).__name__.lower()
    for groups in () if life.case.first else life.groups:
        for group in groups:
            earlier = [r for r in group.rollouts if r.stage != life.run.name]
            if earlier and all(r.unused.startswith(f"{before}: ") for r in earlier):
                assert len(earlier) == group.size, group.id


def check_resume(life: Life) -> None:
    """Killed between steps, the run goes on as if it had not been."""
    for after in (STEPS // 2, STEPS - 1):
        run = life.again(after)
        for metrics in life.metrics[after:]:
            run.next()
            assert json.dumps(run.metrics) == json.dumps(metrics)  # equal NaN included
        assert run.plans == life.run.plans[after:]
        assert life.state(run) == life.states[-1]


def check_plain_state(life: Life) -> None:
    state = life.run.stage.state_dict()
    assert json.loads(json.dumps(state)) == state


def check_rewards_unread(life: Life) -> None:
    """Success is the verdict: rewards that say the opposite change nothing."""
    shaped = life.begin(life.case, life.world, reward=perverse)
    assert left_out(shaped.steps(STEPS)) == left_out(life.groups)
    assert shaped.plans == life.run.plans


def check_reasons(life: Life) -> None:
    """What is left out says which stage did it, and one reason holds for a whole group."""
    names = tuple(f"{type(stage).__name__.lower()}: " for stage in life.run.explorer.stages)
    for group in itertools.chain(*life.groups):
        reasons = {r.unused for r in group.rollouts} - {""}
        assert len(reasons) <= 1
        assert all(reason.startswith(names) for reason in reasons)


def check_metrics(life: Life) -> None:
    """The same names in every step, those of an empty one too, and numbers."""
    nothing = life.begin(life.case, WORLDS["empty batch"])
    nothing.next()
    for metrics in (*life.metrics, nothing.metrics):
        assert metrics.keys() == life.metrics[0].keys()
        assert all(type(value) is float for value in metrics.values())


RULES = (
    check_budget,
    check_determinism,
    check_order_of_problems,
    check_what_is_left_out_gets_nothing,
    check_resume,
    check_plain_state,
    check_rewards_unread,
    check_reasons,
    check_metrics,
)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_stage_keeps_every_rule(case, world):
    life = Life(case, world)
    for rule in RULES:
        rule(life)


BEHIND = {  # stages whose rollouts depend on what they find
    "nothing": list,
    "uniform": lambda: [Uniform(n=4)],
    "cures": lambda: [Cures(n=4, min_n=2, max_n=7)],
    "greedy": lambda: [Uniform(n=4), GreedyStage(max_tokens=8)],
    "branch": lambda: [Uniform(n=4), Branch(which="all", segment=EVERY, branches=2)],
    "entropy_branch": lambda: [Uniform(n=4), EntropyBranch(segment=EVERY, tokens=2, total=7)],
    "rebalance": lambda: [Uniform(n=4), Rebalance(n_max=8)],
    "refill": lambda: [Uniform(n=4), Refill(attempts=2, surplus="keep", target=9)],
    "prioritise": lambda: [Uniform(n=3), Prioritise(total=50)],
}


PAIRS = {
    f"{name} behind {before}": (case, BEHIND[before])
    for before, (name, case) in itertools.product(BEHIND, CASES.items())
    if case.first or before != "nothing"
}


@pytest.mark.parametrize(("case", "before"), PAIRS.values(), ids=PAIRS)
def test_the_bounds_of_a_step_hold_behind_every_stage(case, before):
    world = World(6, Uniform, by_rate)
    stages = [*before(), case.stage()]
    bounds = bounds_after(stages, world.problems)
    for groups in Run(stages, world, train=lambda i: POOL[i % EPOCH]).steps(STEPS):
        check_bounds(bounds, sum(g.size for g in groups))


# Each rule is broken once on purpose


class Spendthrift(Stage):
    """A rollout too many."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=2 + (i == 0)) for i, g in enumerate(view.groups)]


class Generous(Stage):
    """Forgets that a group may have been left out."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=1) for g in view.groups]


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
        (Spendthrift, check_budget),
        (Spendthrift, check_order_of_problems),
        (Generous, check_what_is_left_out_gets_nothing),
        (Moody, check_determinism),
        (Forgetful, check_resume),
        (Greedy, check_rewards_unread),
        (Greedy, check_reasons),
        (Greedy, check_metrics),
        (Greedy, check_plain_state),
    ],
)
def test_a_stage_that_breaks_a_rule_is_found(broken, rule):
    life = Life(Case(broken, lambda sizes: 2 * len(sizes)), WORLDS["half left out"])
    with pytest.raises(AssertionError):
        rule(life)
