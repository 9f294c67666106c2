"""Pilot-Commit: a few pilot rollouts decide which problems get many more rollouts and which are dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from outrider.errors import UserError
from outrider.explore.memory import remember
from outrider.explore.outcome import first_pass, pass_rate
from outrider.explore.refill import expected, first_stage, live
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, Problem, SampleRequest, identity_seed


class Commit(Stage):
    """Samples ``n`` more rollouts for problems whose pilot (first rollouts) has a pass rate within ``[low, high]``.

    All other problems are dropped with one of four reasons: ``commit: too easy``, ``commit: too hard``, ``commit:
    unscorable`` (the verifier failed on the whole pilot) or ``commit: surplus``. If more than ``target`` problems
    qualify, a seeded draw accepts ``target`` of them, and the rest are surplus. A problem's group holds both the pilot
    and the additional rollouts. While fewer than ``target`` problems are within ``[low, high]``, new problems get a
    pilot, in at most ``attempts`` rounds. :func:`outrider.explore.refill.expected` gives the number of new problems per
    round, which is at most the number that the step began with. After the last round the step trains on the accepted
    problems, and the metric ``missing`` counts how many problems are still needed to reach ``target``. Without a
    target, every problem within ``[low, high]`` is accepted, and no new problems are taken.

    With ``evict``, a problem is evicted (skipped in later steps) after a step in which all of its rollouts (at least
    two) succeeded. An evicted problem is accepted again when it comes up for the third time in one step (metric
    ``recalled``). By then, every other problem has come up in this step too. Problems that were too hard are not
    evicted, so they can be sampled again. The last 100,000 evicted problems are remembered.

    The pass rate counts only rollouts that the verifier could score. Branches (continuations of other rollouts) and
    rollouts with hints or in-context examples are ignored. Degenerate cases: for an empty batch the stage requests
    nothing. Groups that an earlier stage excluded are ignored. If no problem is within ``[low, high]``, all problems
    are dropped and the step has no update. If the task has no more problems, the rounds end early.

    Source: Kim et al. 2026, "Pilot-Commit", arXiv 2605.26606, following its released code (recipe/pc). We read only
    summaries of the paper. Differences: the released code buffers pilots for up to four steps. Buffered pilots are
    off-policy, but the importance ratio in that code does not correct for this. Here the additional rollouts follow in
    the same step, and problems beyond the target are dropped. The released code stops when a step has too few problems
    or when all problems are evicted. As in the released code, the pilot rollouts whose outcomes select a problem are
    also trained on.

    Raises:
        ValueError: ``low`` is above ``high``, or no possible pass rate of the pilot lies between the two.
        UserError: no problem has rollouts yet.

    >>> Commit(n=48, target=128).high
    0.75
    """

    n: int = Field(
        24,
        ge=1,
        description="number of additional rollouts for each problem that is accepted after its first rollouts (pilot)",
    )
    target: int | None = Field(
        None,
        ge=1,
        description=(
            "number of problems to accept per training step; null: accept all problems whose first rollouts (pilot) "
            "have a pass rate in the accepted range"
        ),
    )
    low: float = Field(
        0.125,
        ge=0,
        le=1,
        description="minimum pass rate of a problem's first rollouts (pilot) at which the problem is accepted",
    )
    high: float = Field(
        0.75,
        ge=0,
        le=1,
        description="maximum pass rate of a problem's first rollouts (pilot) at which the problem is accepted",
    )
    attempts: int = Field(
        9,
        ge=0,
        description=(
            "maximum number of times per training step that the stage adds new problems, because fewer than target "
            "problems have a pass rate in the accepted range; with target null, the stage adds none"
        ),
    )
    evict: bool = Field(
        True,
        description=(
            "whether to skip problems whose rollouts all succeeded in an earlier training step, as long as other "
            "problems are available"
        ),
    )

    _began: int = PrivateAttr(0)
    _seed: int = PrivateAttr(0)
    _committed: set[str] | None = PrivateAttr(None)
    _evicted: dict[str, None] = PrivateAttr(default_factory=dict)
    _offers: Counter[str] = PrivateAttr(default_factory=Counter)  # offers of evicted problems in this step
    _refused: set[str] = PrivateAttr(default_factory=set)
    _recalled: set[str] = PrivateAttr(default_factory=set)
    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_band(self) -> Commit:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, above high, which is {self.high}: no pass rate lies between")
        return self

    def check(self, around: Surroundings) -> None:
        if not around.before:
            raise ValueError("commit needs pilot rollouts and cannot be the first stage: put uniform before it")
        fewest, most = around.bounds.first
        if most and not any(self.low <= k / n <= self.high for n in range(fewest, most + 1) for k in range(n + 1)):
            raise ValueError(f"a pilot of n={most} cannot have a pass rate between {self.low} and {self.high}")

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round == 0:
            self._begin(view)
        if self._committed is not None:
            return []
        tried = live(view.groups)
        within = [group for group in tried if not self.fate(group)]
        missing = max(0, (self.target or 0) - len(within))
        more = expected(missing, len(within), len(tried)) if view.round < self.attempts else 0
        if taken := view.take(min(more, self._began)):
            pilot = max(first_stage(group) for group in view.groups)
            return [SampleRequest(problem, n=pilot) for problem in taken]
        drawn = sorted(within, key=lambda group: identity_seed(self._seed, "commit", group.id))[: self.target]
        self._committed = {group.id for group in drawn}
        self._numbers = {
            "attempts": float(view.round),
            "problems": float(len(view.groups) - self._began),
            "committed": float(len(drawn)),
            "missing": float(missing),
        }
        return [SampleRequest(group.problem, n=self.n) for group in within if group.id in self._committed]

    def fate(self, group: Group) -> str:
        """Return the reason to drop a problem after its first rollouts, or an empty string if their pass rate is within
        ``[low, high]``.
        """
        rate = pass_rate(group)
        if rate is None:
            return "unscorable"
        return "too hard" if rate < self.low else "too easy" if rate > self.high else ""

    def drop(self, groups: Sequence[Group]) -> dict[str, str]:
        committed = self._committed or set()
        reasons = {g.id: self.fate(g) or "surplus" for g in live(groups) if g.id not in committed}
        counts = Counter(reasons.values())
        for reason in ("too easy", "too hard", "unscorable", "surplus"):
            self._numbers[reason.replace(" ", "_")] = float(counts[reason])
        return {key: f"commit: {reason}" for key, reason in reasons.items()}

    def admits(self, problem: Problem, step: int) -> bool:
        if problem.id not in self._evicted:
            return True
        self._offers[problem.id] += 1
        # each epoch is shuffled anew, so only a third offer proves that a whole epoch has passed since the first offer
        exhausted = self._offers[problem.id] > 2
        (self._recalled if exhausted else self._refused).add(problem.id)
        return exhausted

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        for group in groups if self.evict else ():
            counted = first_pass(group)
            if len(counted) > 1 and all(r.success for r in counted):
                remember(self._evicted, group.problem.id, None)
        passed_over = {"refused": self._refused, "recalled": self._recalled, "evicted": self._evicted}
        numbers = self._numbers | {name: float(len(ids)) for name, ids in passed_over.items()}
        self._offers, self._refused, self._recalled = Counter(), set(), set()
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """Return the ids of problems that are skipped because all their rollouts succeeded, oldest first."""
        return {"evicted": list(self._evicted)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._evicted = dict.fromkeys(state["evicted"])

    def _begin(self, view: View) -> None:
        if view.groups and not any(group.size for group in view.groups):
            raise UserError(
                "commit needs rollouts of an earlier stage, and no problem has any: put uniform before it in explore"
            )
        self._began, self._seed, self._committed = len(view.groups), view.seed, None
