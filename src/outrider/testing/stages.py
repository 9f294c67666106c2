"""The laws (tested properties) of exploration stages. Each law has a function that inspects a test run of a stage, and
raises an ``AssertionError`` if the stage breaks the law."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from outrider.explore import Bounds, Stage
from outrider.explore.bounds import bounds_of
from outrider.explore.stage import PlansAhead
from outrider.record import Group, Outcome, Problem, Rollout
from outrider.testing.law import LawError, breaks, require, require_equal
from outrider.testing.scripted import POOL, STEPS, ScriptedRun, perverse
from outrider.testing.situations import SITUATIONS, Halved, Situation, always

EPOCH = 11  # problems per epoch, so that a run of 6 steps has two or three epochs


class StageClaims(NamedTuple):
    """A stage, and properties that its author claims and that the checks verify.

    Attributes:
        make: function that creates a new stage.
        budget: function that returns the maximum number of rollouts that the stage requests in a step. Its argument has
            the number of rollouts that each group already has. If None, no limit is checked.
        first: whether the stage requests rollouts for problems without rollouts. Other stages extend groups that
            already have rollouts.
        exact: whether the stage requests exactly ``budget`` rollouts, instead of at most ``budget``.
        single: whether the stage drops individual rollouts of a group, possibly for different reasons.
    """

    make: Callable[[], Stage]
    budget: Callable[[Sequence[int]], int] | None = None
    first: bool = False
    exact: bool = False
    single: bool = False


class Life:
    """A test run of a stage, in which rollouts are made up instead of sampled. All checks inspect the results of this
    run.

    Args:
        known: cache of made-up rollouts, which is shared with the test runs of other stages on the same ``situation``.

    Attributes:
        states: states of the explorer after 0, 1, … steps.
        groups: groups of each step.
        metrics: metrics of each step.
    """

    def __init__(
        self, claims: StageClaims, situation: Situation, known: dict[tuple[Any, ...], Rollout] | None = None
    ) -> None:
        self.claims, self.situation = claims, situation
        self._known = {} if known is None else known
        self._parents: dict[str, Rollout] = {}
        self.run = self.begin()
        self.states, self.groups, self.metrics = [self.state(self.run)], list[list[Group]](), list[dict[str, float]]()
        for _ in range(STEPS):
            self.groups.append(self.run.next())
            self.metrics.append(self.run.metrics)
            self.states.append(self.state(self.run))

    def begin(self, situation: Situation | None = None, **rest: Any) -> ScriptedRun:
        """Return a test run of a newly created stage. Its settings are ``situation`` or, if None, those of this
        object."""
        around = self.situation if situation is None else situation
        stages = [self.claims.make()] if self.claims.first else [around.before(), self.claims.make()]
        known = self._known if situation is None else {}
        arguments = {"train": problem_at, "known": known, "parents": self._parents, **rest}
        run = ScriptedRun(stages, around, **arguments)
        run.explorer.prepare()
        return run

    def again(self, after: int = 0, situation: Situation | None = None, **rest: Any) -> ScriptedRun:
        """Return a run of a newly created stage that resumes from the state saved after ``after`` steps."""
        run = self.begin(situation, step=after, **rest)
        with breaks("resume"):
            run.explorer.load_state_dict(json.loads(self.states[after]))
            found, expected = json.loads(self.state(run)), json.loads(self.states[after])
            require_equal(found, expected, f"the state that was loaded after step {after}")
        return run

    @staticmethod
    def state(run: ScriptedRun) -> str:
        """Return the explorer's state as JSON."""
        with breaks("plain state"):
            return json.dumps(run.explorer.state_dict())


def problem_at(index: int) -> Problem:
    """Return the training problem at a position in the stream of problems."""
    return POOL[index % EPOCH]


def keeps_its_budget(life: Life) -> None:
    """All rollouts that the stage requests join a group. Their number is within the claimed ``budget`` and the stage's
    ``bounds``."""
    claims, dropping = life.claims, life.situation.before is Halved
    for step, (groups, plan) in enumerate(zip(life.groups, life.run.plans, strict=True), 1):
        asked = sum(d[1] for d in plan)
        joined = sum(r.stage == life.run.name for g in groups for r in g.rollouts)
        require_equal(joined, asked, f"step {step}: the number of rollouts that joined")
        found = [sum(r.stage != life.run.name for r in g.rollouts) for g in groups]
        sizes = [0] * life.situation.problems if claims.first else [n for n in found if n]
        if not claims.first:
            most = None if dropping else sum(found)  # after a stage that drops rollouts, there is no upper bound
            known = Bounds(sum(found), most, (min(found, default=0), max(found, default=0)))
            check_bounds(bounds_of(life.run.stage, known, life.situation.problems), sum(found) + asked)
        if claims.budget is not None:
            allowed = claims.budget(sizes)
            require(asked <= allowed, f"step {step}: it asked for {asked} rollouts, {allowed} allowed")
            enough = asked == allowed or not claims.exact or dropping
            require(enough, f"step {step}: it asked for {asked} rollouts, exactly {allowed} claimed")


def check_bounds(bounds: Bounds, rollouts: int) -> None:
    """Require that the number of rollouts of a step is within ``bounds``."""
    most = "no limit" if bounds.most is None else bounds.most
    within = bounds.fewest <= rollouts and (bounds.most is None or rollouts <= bounds.most)
    require(within, f"a step has {rollouts} rollouts, but `bounds` says {bounds.fewest} to {most}")


def ignores_the_order_of_problems(life: Life) -> None:
    """If the problems of a step come in another order, each problem still gets the same requests and the same drop
    reasons."""
    n = life.situation.problems
    for step in range(STEPS):
        start = json.loads(life.states[step])["stream"]["position"]
        order = np.roll(range(n), 2) if step % 2 else reversed(range(n))
        places = {start + i: start + int(j) for i, j in enumerate(order)}
        run = life.again(step, train=lambda i, places=places: problem_at(places.get(i, i)))
        groups = run.next()
        found, expected = fates(groups, run.plans[-1]), fates(life.groups[step], life.run.plans[step])
        found = {name: found[name] for name in expected if name in found} | found  # in the same order, for comparison
        require_equal(found, expected, f"step {step + 1}, problems in another order: requests and reasons")


def gives_nothing_to_what_is_excluded(life: Life) -> None:
    """The stage requests no rollouts for problems that an earlier stage dropped, since training does not use them."""
    before = type(life.situation.before()).__name__.lower()
    for step, groups in enumerate(() if life.claims.first else life.groups, 1):
        for group in groups:
            earlier = [r for r in group.rollouts if r.stage != life.run.name]
            if earlier and all(r.unused.startswith(f"{before}: ") for r in earlier):
                more = group.size - len(earlier)
                require(
                    more == 0,
                    f"step {step}: it asked for {more} rollouts of {group.problem.id!r}, which was dropped before",
                )


def resumes(life: Life) -> None:
    """If a run is killed between two steps and resumed, its results are the same as without the interruption."""
    for after in (STEPS // 2, STEPS - 1):
        run, killed = life.again(after), f"killed and resumed after step {after}: "
        for step, metrics in enumerate(life.metrics[after:], after + 1):
            run.next()
            expected = life.run.plans[step - 1]
            require_equal(run.plans[-1], expected, f"{killed}the plan of step {step}")
            if json.dumps(run.metrics) != json.dumps(metrics):  # equal NaN included
                require_equal(run.metrics, metrics, f"{killed}the metrics of step {step}")
        require_equal(json.loads(life.state(run)), json.loads(life.states[-1]), f"{killed}the last state")


def keeps_plain_state(life: Life) -> None:
    """The state is JSON data, and a JSON round trip does not change it."""
    state = life.run.stage.state_dict()
    require_equal(json.loads(json.dumps(state)), state, "the state that was written and read back")


def follows_success_and_not_reward(life: Life) -> None:
    """The stage reads success from the verdict, not from the reward. Its decisions therefore do not change even if the
    rewards contradict the verdicts.

    If the decisions differ even in a second run with the same rewards, the error says that the stage is not
    deterministic.
    """
    try:
        _require_same(life, perverse)
    except LawError as error:
        with breaks("determinism"):
            _require_same(life)
        raise error from None


def _require_same(life: Life, *reward: Callable[[bool, int], float]) -> None:
    run = life.begin(reward=reward[0]) if reward else life.begin()
    what = "a second run, with other rewards and equal verdicts: " if reward else "a second run: "
    found = excluded(run.steps(STEPS))
    require_equal(run.plans, life.run.plans, f"{what}the plans")
    require_equal(found, excluded(life.groups), f"{what}the reasons")
    require_equal(json.loads(life.state(run)), json.loads(life.states[-1]), f"{what}the last state")


def plans_ahead_if_it_says_so(life: Life) -> None:
    """If a stage is a ``PlansAhead`` stage, its requests do not depend on outcomes, and it drops no rollout."""
    own = f"{type(life.run.stage).__name__.lower()}: "
    for step in range(STEPS) if isinstance(life.run.stage, PlansAhead) else ():
        for end in (Outcome.CORRECT, Outcome.INCORRECT, Outcome.TIMEOUT):
            run = life.again(step, life.situation._replace(ending=always(end)))
            groups, where = run.next(), f"step {step + 1}, in which every verdict is {end.value}: "
            expected = [group.id for group in life.groups[step]]
            require_equal([group.id for group in groups], expected, f"{where}the groups")
            require_equal(run.plans[0], life.run.plans[step], f"{where}the plan")
            reasons = [r.unused for group in groups for r in group.rollouts if r.unused.startswith(own)]
            require_equal(reasons, [], f"{where}the reasons")


def gives_reasons(life: Life) -> None:
    """Drop reasons begin with the stage's name. All dropped rollouts of a group have the same reason, unless ``single``
    is True."""
    names = tuple(f"{type(stage).__name__.lower()}: " for stage in life.run.explorer.stages)
    for group in itertools.chain(*life.groups):
        reasons = {r.unused for r in group.rollouts} - {""}
        require(
            len(reasons) <= 1 or life.claims.single,
            f"the group of {group.problem.id!r} has several reasons: {', '.join(sorted(reasons))}",
        )
        nameless = sorted(reason for reason in reasons if not reason.startswith(names))
        require(not nameless, f"a reason has no stage's name in front, such as {names[-1]!r}: {nameless}")


def names_its_metrics(life: Life) -> None:
    """Metrics are floats with the same names in every step, even in a step without problems."""
    nothing = life.begin(SITUATIONS["empty batch"])
    nothing.next()
    for step, metrics in enumerate((*life.metrics, nothing.metrics), 1):
        where = f"step {step}" if step <= STEPS else "an empty step"
        require_equal(sorted(metrics), sorted(life.metrics[0]), f"{where}: the names of the metrics")
        kinds = {name: type(value).__name__ for name, value in metrics.items()}
        require_equal(kinds, dict.fromkeys(metrics, "float"), f"{where}: the types of the metrics")


STAGE_LAWS: dict[str, Callable[[Life], None]] = {
    "plain state": keeps_plain_state,
    "budget": keeps_its_budget,
    "success, not reward": follows_success_and_not_reward,
    "resume": resumes,
    "order of problems": ignores_the_order_of_problems,
    "excluded problems": gives_nothing_to_what_is_excluded,
    "plans ahead": plans_ahead_if_it_says_so,
    "reasons": gives_reasons,
    "metrics": names_its_metrics,
}
"""The laws that every stage keeps in every situation. A stage with unseeded randomness breaks most laws, so the third
law already reports missing determinism."""


def stage_checks(claims: StageClaims) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check, with a function that checks a stage with each of the test settings
    ``SITUATIONS``."""
    lives: dict[str, Life] = {}
    component = type(claims.make()).__name__
    yield "requests", partial(_begin, claims, lives, component)
    for law, rule in STAGE_LAWS.items():
        yield law, partial(_check_everywhere, rule, law, lives, component)


def _begin(claims: StageClaims, lives: dict[str, Life], component: str) -> None:
    for name, situation in SITUATIONS.items():
        with breaks("requests", name, component):
            lives[name] = Life(claims, situation)


def _check_everywhere(rule: Callable[[Life], None], law: str, lives: dict[str, Life], component: str) -> None:
    for name, life in lives.items():
        with breaks(law, name, component):
            rule(life)


def excluded(steps: Sequence[Sequence[Group]]) -> list[list[tuple[str, list[str]]]]:
    """For each group of each step, return each rollout's reason for exclusion from training (empty if it is used)."""
    return [[(g.id, [r.unused for r in g.rollouts]) for g in groups] for groups in steps]


def fates(groups: Sequence[Group], plan: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """For each problem of a step, return the stage's decisions: its requests, and each rollout's reason for being
    dropped (empty if it is kept)."""
    asked = {g.problem.id: [d for d in plan if d[0] == g.problem.id] for g in groups}
    return {g.problem.id: (asked[g.problem.id], [r.unused for r in g.rollouts]) for g in groups}
