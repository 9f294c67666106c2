"""The settings of the runs in which exploration stages (the parts of a recipe that request rollouts) are tested. The
settings differ in the number of problems per step, in the preceding stage, and in the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from outrider.explore import Stage, Uniform, View
from outrider.record import Group, Outcome, SampleRequest, identity_seed

seed_of = cache(identity_seed)  # every run of a situation needs the same seeds


class Situation(NamedTuple):
    """The settings of a test run of an exploration stage, in which rollouts are made up instead of sampled.

    Attributes:
        problems: number of problems per step.
        before: function that creates the stage before the tested stage.
        ending: function that returns a rollout's outcome, given its request and its index in the group.
        truncated: whether every rollout is truncated by max_tokens.
        turns: whether rollouts also have tokens from an environment, as in multi-turn tasks.
    """

    problems: int
    before: Callable[[], Stage]
    ending: Callable[[SampleRequest, int], Outcome]
    truncated: bool = False
    turns: bool = False


class Ragged(Stage):
    """Requests one to seven rollouts per problem. The number depends only on the problem."""

    def plan(self, view: View) -> list[SampleRequest]:
        sizes = [1 + seed_of("size", g.problem.id) % 7 for g in view.groups]
        return [] if view.round else [SampleRequest(g.problem, n=n) for g, n in zip(view.groups, sizes, strict=True)]


class Halved(Ragged):
    """Requests rollouts like :class:`Ragged`, but drops about half of the problems. The choice depends only on the
    problem."""

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        return {g.id: "halved: by lot" for g in groups if seed_of("half", g.problem.id) % 2}


def by_rate(request: SampleRequest, member: int) -> Outcome:
    """Return a rollout's outcome. Some problems are always solved, some are never solved, and most are sometimes
    solved.

    If a problem is sometimes solved, the outcome depends on the group and on the rollout's index in the group.
    """
    rate = seed_of("rate", request.problem.id) % 5 / 4
    return Outcome.CORRECT if seed_of(request.group_id, member) / 2**63 < rate else Outcome.INCORRECT


def with_errors(request: SampleRequest, member: int) -> Outcome:
    """Return a verifier error for a third of the rollouts, and the outcome of :func:`by_rate` for the others."""
    return Outcome.ERROR if seed_of("error", request.group_id, member) % 3 == 0 else by_rate(request, member)


def always(ending: Outcome) -> Callable[[SampleRequest, int], Outcome]:
    """Return a function that returns the outcome ``ending`` for every rollout."""
    return lambda request, member: ending


SITUATIONS = {
    "even groups": Situation(4, lambda: Uniform(n=4), by_rate),
    "ragged groups": Situation(4, Ragged, by_rate),
    "groups of one": Situation(4, lambda: Uniform(n=1), by_rate),
    "one problem": Situation(1, Ragged, by_rate),
    "empty batch": Situation(0, Ragged, by_rate),
    "all solved": Situation(4, Ragged, always(Outcome.CORRECT)),
    "all failed": Situation(4, Ragged, always(Outcome.INCORRECT)),
    "all truncated": Situation(4, Ragged, always(Outcome.INCORRECT), truncated=True),
    "all unscorable": Situation(4, Ragged, always(Outcome.TIMEOUT)),
    "some unscorable": Situation(4, Ragged, with_errors),
    "half excluded": Situation(6, Halved, by_rate),
    "turns": Situation(4, Ragged, by_rate, turns=True),
}
