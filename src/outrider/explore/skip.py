"""A curriculum across epochs (after GRESO): problems whose recent rollouts all succeeded or all failed are sampled less
often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from pydantic import Field, PrivateAttr

from outrider.explore.bounds import Bounds
from outrider.explore.memory import remember
from outrider.explore.outcome import evidence, outcome
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.view import View
from outrider.record import Group, Problem, SampleRequest, identity_seed


@dataclass(slots=True)
class _Streak:
    """A problem's consecutive ``visits`` (steps that sampled it) in which its rollouts all succeeded (``solved``) or
    all failed. ``offers`` counts how often the problem has come up since the last visit. ``seed`` and ``offers``
    determine the result of :meth:`drawn`."""

    solved: bool
    visits: int
    seed: int
    offers: int = 0

    def drawn(self) -> float:
        """Return a pseudo-random number in [0, 1), which differs each time the problem comes up."""
        self.offers += 1
        return identity_seed(self.seed, "skip", self.offers) / 2**63


class Skip(PlansAhead, Stage):
    """Refuses a problem with a probability that rises with the number of steps in a row in which its rollouts all
    succeeded or all failed.

    A visit is a step that sampled the problem. After ``z`` consecutive visits that were all solved, or all unsolved, a
    problem is accepted with probability

        max(keep ** z, floor)

    A problem is always accepted if it is new or if its last visit had both successes and failures. The stage does not
    sample rollouts. It can be placed anywhere in ``explore``. It filters the initial problems of a step and the
    problems that other stages add. Because of ``floor``, a refused problem is expected to be accepted again within ``1
    / floor`` epochs, however often it failed.

    A visit is solved if all of its rollouts with a verdict succeeded, and unsolved if all failed. Branches
    (continuations of other rollouts) and rollouts with in-context examples count too, since a success among failures
    gives a gradient wherever it comes from. Degenerate cases: a visit with fewer than two rollouts that the verifier
    could score changes nothing. A change from unsolved to solved, or back, restarts the count. The random draw depends
    on the run's seed, the problem, its last visit, and how often the problem has come up since then. Counts of visits
    are stored for at most 100,000 problems.

    Differences from GRESO (arXiv 2506.02177): GRESO has one probability for easy problems and one for hard problems,
    and adapts both until a target share of groups has no reward variance. Here ``keep`` and ``floor`` are constants.
    GRESO enlarges the batch to replace groups without reward variance; here, the stage ``refill`` replaces them.

    >>> Skip().chance(0), Skip().chance(2), Skip().chance(9)
    (1.0, 0.25, 0.1)
    """

    keep: float = Field(
        0.5,
        gt=0,
        lt=1,
        description=(
            "factor by which a problem's sampling probability is multiplied for each consecutive training step in "
            "which its rollouts all succeeded or all failed"
        ),
    )
    floor: float = Field(
        0.1,
        ge=0.02,
        le=1,
        description=(
            "minimum probability of sampling a problem, even if its rollouts have all succeeded or all failed many "
            "times"
        ),
    )

    _streaks: dict[str, _Streak] = PrivateAttr(default_factory=dict)
    _skipped: dict[bool, int] = PrivateAttr(default_factory=lambda: {True: 0, False: 0})

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before

    def plan(self, view: View) -> list[SampleRequest]:
        return []

    def chance(self, visits: int) -> float:
        """Return the probability of accepting a problem whose rollouts all succeeded (or all failed) in the last
        ``visits`` steps that sampled the problem."""
        return max(self.keep**visits, self.floor)

    def admits(self, problem: Problem, step: int) -> bool:
        streak = self._streaks.get(problem.id)
        taken = streak is None or streak.drawn() < self.chance(streak.visits)
        if streak is not None and not taken:
            self._skipped[streak.solved] += 1
        return taken

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        for group in groups:
            if len(evidence(group.rollouts)) > 1:
                self._visited(group)
        numbers = {
            "skipped_solved": float(self._skipped[True]),
            "skipped_unsolved": float(self._skipped[False]),
            "streaks_solved": float(sum(s.solved for s in self._streaks.values())),
            "streaks_unsolved": float(sum(not s.solved for s in self._streaks.values())),
        }
        self._skipped = {True: 0, False: 0}
        return numbers

    def _visited(self, group: Group) -> None:
        key = group.problem.id
        found = outcome(group)
        if found == "mixed":
            self._streaks.pop(key, None)
            return
        solved = found == "solved"
        before = self._streaks.get(key)
        visits = before.visits + 1 if before is not None and before.solved == solved else 1
        remember(self._streaks, key, _Streak(solved, visits, seed=group.rollouts[0].seed))

    def state_dict(self) -> dict[str, Any]:
        """Return the fields of each problem's :class:`_Streak`, oldest problem first."""
        return {"streaks": [[key, *astuple(streak)] for key, streak in self._streaks.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._streaks = {key: _Streak(*streak) for key, *streak in state["streaks"]}
