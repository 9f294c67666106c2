"""Allocation by difficulty (after CurES): problems with a pass rate near one half get the most rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, lgamma, log, sqrt
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from outrider.explore.allocation import Allocation
from outrider.explore.apportion import raised
from outrider.explore.memory import remember
from outrider.explore.outcome import first_pass
from outrider.record import Group, Problem

Positive = Annotated[float, Field(gt=0)]


class Cures(Allocation):
    """Allocates ``n`` rollouts per problem on average. A problem's share depends on its pass rate in earlier visits
    (steps that sampled the problem).

    The pass rate ``p`` of a problem has the posterior ``Beta(prior[0] + successes, prior[1] + failures)`` over all its
    visits. At each visit, the counts of earlier visits are multiplied by ``memory``, since the policy changes. A
    problem's weight is the expected standard deviation of one rollout's success (0 or 1),

        w = E[sqrt(p (1 - p))] = B(a + 1/2, b + 1/2) / B(a, b),    B: Euler's beta function.

    The step's budget, ``n`` times the number of problems, is allocated in proportion to ``w``, with ``min_n`` to
    ``max_n`` rollouts per problem (:func:`share_out`). The numbers of rollouts sum to exactly the budget. A new problem
    has the weight of the prior, so a step with only new problems is allocated uniformly. In a recipe, this stage
    replaces ``uniform``, which samples the first rollouts.

    The stage learns from every rollout that the verifier could score, including rollouts in dropped groups. Branches
    and rollouts with hints or in-context examples are ignored. Degenerate cases: for an empty batch the stage requests
    nothing. Problems that already have rollouts get no further rollouts. Problems whose rollouts all succeeded or all
    failed keep a positive weight, and get at least ``min_n`` rollouts. The last 100,000 problems are remembered; a
    forgotten problem counts as new.

    Source: CurES (Zeng et al., arXiv 2510.01037), as described in XRPO (arXiv 2510.06672, section 2.2 and appendix G):
    difficulty is estimated by Bayesian posterior updates, and rollouts are allocated by difficulty. Three things are
    our choice: the closed-form expectation over the posterior, the minimum and maximum number of rollouts per problem,
    and the discount ``memory``. The paper estimates pass rates before training; here they are updated during training.
    The paper also changes how often each problem is sampled; in Outrider the stage ``skip`` does this.

    Raises:
        ValidationError: ``min_n <= n <= max_n`` does not hold, so the budget could not be spent.
    """

    prior: tuple[Positive, Positive] = Field(
        (1.0, 1.0),
        description="pseudo-counts (successes, failures) of the beta prior for a problem's pass rate",
    )
    memory: float = Field(
        1.0,
        ge=0,
        le=1,
        description=(
            "factor by which a problem's earlier outcomes are down-weighted each time the problem is sampled again; 1: "
            "no down-weighting"
        ),
    )

    _evidence: dict[str, tuple[float, float]] = PrivateAttr(default_factory=dict)

    def counts(self, problems: Sequence[Problem], ties: Sequence[int]) -> list[int]:
        self._numbers = {"known": float(sum(problem.id in self._evidence for problem in problems))}
        weights = [self.weight(problem.id) for problem in problems]
        return share_out(weights, self.n * len(problems), (self.min_n, self.max_n), ties)

    def weight(self, problem_id: str) -> float:
        """Return ``E[sqrt(p (1 - p))]`` under the posterior of a problem. The value is at most 1/2."""
        successes, failures = self._evidence.get(problem_id, (0.0, 0.0))
        a, b = self.prior[0] + successes, self.prior[1] + failures
        # grouped so that (a, b) and (b, a) give bit-identical results, which keeps ties exact
        return exp((lgamma(a + 0.5) + lgamma(b + 0.5)) - (lgamma(a) + lgamma(b)) - log(a + b))

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        for group in groups:
            counted = first_pass(group)
            if counted:
                new = sum(r.success for r in counted)
                old = self._evidence.get(group.problem.id, (0.0, 0.0))
                kept = [self.memory * count for count in old]
                remember(self._evidence, group.problem.id, (kept[0] + new, kept[1] + len(counted) - new))
        return self._numbers

    def state_dict(self) -> dict[str, Any]:
        """Return each problem's discounted successes and failures, oldest problem first."""
        return {"evidence": [[key, *counts] for key, counts in self._evidence.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._evidence = {key: (successes, failures) for key, successes, failures in state["evidence"]}


def share_out(weights: Sequence[float], total: int, bounds: tuple[int, int], ties: Sequence[int]) -> list[int]:
    """Divide ``total`` exactly into integers in proportion to positive ``weights``, within ``bounds``.

    Each unit goes to the problem with the largest ``w / sqrt(n (n + 1))``, where ``w`` is the problem's weight and
    ``n`` its count so far. This integer Neyman allocation minimises ``sum w^2 / n`` within the bounds (Wright 2012,
    "The equivalence of Neyman optimum allocation for sampling and equal proportions for apportioning the U.S. House of
    Representatives"). Largest-remainder rounding would not respect the bounds. Problems with equal weights have counts
    that differ by at most one; the problem with the smaller value in ``ties`` gets more. The bounds must be feasible:
    ``bounds[0] >= 1``, and ``total`` is between ``len(weights) * bounds[0]`` and ``len(weights) * bounds[1]``.

    >>> share_out([1.0, 2.0, 4.0], 14, (1, 32), [0, 0, 0]), share_out([1.0, 2.0, 4.0], 14, (3, 6), [0, 0, 0])
    ([2, 4, 8], [3, 5, 6])
    """
    low, high = bounds
    room = total - low * len(weights)
    return raised([low] * len(weights), room, high, lambda i, n: weights[i] / sqrt(n * (n + 1)), ties)
