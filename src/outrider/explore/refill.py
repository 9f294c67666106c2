"""Dynamic sampling (DAPO): samples new problems until enough groups have both successes and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, PrivateAttr

from outrider.errors import UserError
from outrider.explore.outcome import outcome, scorable
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, SampleRequest, identity_seed


class Refill(Stage):
    """Samples new problems until ``target`` groups have both successes and failures, and drops all other groups.

    A group is mixed if some of its rollouts succeed and some fail; rollouts that the verifier could not score are
    ignored. Success depends on the verdict, never on the shaped reward. With ``m`` of ``s`` groups mixed so far in the
    step, a round takes

        min(ceil((target - m) / share), oversample * (target - m)),    share = (m + 1) / (s + 2)

    new problems. ``share`` estimates the share of mixed groups by the rule of succession, and is never 0. If ``share``
    is small, the option ``oversample`` limits the round's number of problems. After ``attempts`` rounds the step trains
    on the mixed groups so far, and the metric ``missing`` counts how many more mixed groups the target requires.

    Reasons for dropping: ``refill: solved``, ``refill: unsolved``, ``refill: truncated`` (unsolved, and every rollout
    was truncated), ``refill: unscorable`` (the verifier failed on every rollout), and ``refill: surplus`` (mixed, but
    beyond the target). A seeded draw, which does not depend on the order of groups, chooses the surplus. Dropped groups
    are still saved in the run folder.

    Degenerate cases: a group is ``solved`` if the verifier could score only one rollout, a success. Groups of one
    rollout are never mixed. Groups that an earlier stage excluded are ignored. For an empty batch the stage requests
    nothing. If no group is mixed, all groups are dropped and the step has no update. If the task has no more problems,
    the rounds end early.

    Differences: DAPO's released scripts stop the run if there are still too few mixed groups after the last round. They
    sample three times the batch size in each round, without an estimate of the share.

    Raises:
        UserError: no group has rollouts yet.

    Source: Yu et al. 2025, "DAPO", arXiv 2503.14476, section 3.2.

    >>> Refill().problems(missing=6, mixed=2, sampled=8), Refill().problems(missing=6, mixed=0, sampled=8)
    (18, 18)
    >>> Refill().problems(missing=6, mixed=5, sampled=10)
    12
    """

    target: int | None = Field(
        None,
        ge=1,
        description=(
            "target number of groups with both successes and failures per training step; null: the number of "
            "problems at the start of the step"
        ),
    )
    n: int | None = Field(
        None,
        ge=1,
        description=(
            "number of rollouts for each new problem; null: as many as each problem got at the beginning of the step "
            "(the largest number, if the numbers differ)"
        ),
    )
    attempts: int = Field(
        10,
        ge=0,
        description=(
            "maximum number of rounds in which new problems are sampled; 0: drop groups whose outcomes are all equal, "
            "and do not replace them"
        ),
    )
    oversample: int = Field(
        3,
        ge=1,
        description=(
            "maximum number of new problems per round, as a multiple of the number of groups that are still needed"
        ),
    )
    surplus: Literal["drop", "keep"] = Field(
        "drop",
        description=(
            "treatment of surplus groups if there are more groups with both successes and failures than the target: "
            "drop the surplus (drop), or train on it too (keep)"
        ),
    )

    _target: int = PrivateAttr(0)
    _began: int = PrivateAttr(0)
    _seed: int = PrivateAttr(0)
    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError(
                "refill replaces groups that are not mixed and cannot be the first stage: put uniform before it"
            )

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round == 0:
            self._begin(view)
        sampled = live(view.groups)
        mixed = sum(outcome(group) == "mixed" for group in sampled)
        missing = max(0, self._target - mixed)
        more = missing if view.round < self.attempts else 0
        taken = view.take(self.problems(more, mixed, len(sampled)))
        if not taken:
            self._numbers = {
                "share": mixed / len(sampled) if sampled else float("nan"),
                "attempts": float(view.round),
                "problems": float(len(view.groups) - self._began),
                "missing": float(missing),
                "capped": float(missing > more),
            }
            return []
        n = self.n or max(first_stage(group) for group in view.groups)
        return [SampleRequest(problem, n=n) for problem in taken]

    def problems(self, missing: int, mixed: int, sampled: int) -> int:
        """Return the number of new problems for the next round. So far, ``mixed`` of ``sampled`` groups have both
        successes and failures, and ``missing`` more such groups are needed."""
        return min(expected(missing, mixed, sampled), self.oversample * missing)

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        reasons = {group.id: _reason(group) for group in live(groups)}
        mixed = [key for key, reason in reasons.items() if reason == "mixed"]
        if self.surplus == "drop" and len(mixed) > self._target:
            for key in sorted(mixed, key=lambda key: identity_seed(self._seed, "refill", key))[self._target :]:
                reasons[key] = "surplus"
        counts = Counter(reasons.values())
        for reason in ("solved", "unsolved", "truncated", "unscorable", "surplus"):
            self._numbers[reason] = float(counts[reason])
        return {key: f"refill: {reason}" for key, reason in reasons.items() if reason != "mixed"}

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        return self._numbers

    def _begin(self, view: View) -> None:
        if view.groups and not any(group.size for group in view.groups):
            raise UserError(
                "refill filters groups of an earlier stage, but no problem has rollouts: "
                "put uniform before it in explore"
            )
        self._began, self._seed = len(view.groups), view.seed
        self._target = (self.target or self._began) if view.groups else 0


def expected(missing: int, found: int, sampled: int) -> int:
    """Return how many new problems to sample, so that ``missing`` of these problems are expected to pass a filter. Of
    ``sampled`` earlier problems, ``found`` passed.

    The pass probability is estimated by the rule of succession, so it is never 0.

    >>> expected(6, 5, 10), expected(6, 0, 0), expected(0, 3, 4)
    (12, 12, 0)
    """
    return -(-missing * (sampled + 2) // (found + 1))


def live(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that have rollouts and that no earlier stage has excluded."""
    return [group for group in groups if group.size and not group.dropped]


def first_stage(group: Group) -> int:
    """Return the number of the group's rollouts that come from the first stage."""
    return sum(r.stage == group.rollouts[0].stage for r in group.rollouts) if group.size else 0


def _reason(group: Group) -> str:
    found = outcome(group)
    out_of_tokens = found == "unsolved" and all(r.truncated for r in scorable(group.rollouts))
    return "truncated" if out_of_tokens else found
