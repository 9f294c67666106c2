"""Allocation by difficulty (after CurES): most rollouts for problems that are solved half of the time."""

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
    """``n`` rollouts per problem on average, shared out by what earlier visits say of each problem's difficulty.

    The pass rate ``p`` of a problem has the posterior ``Beta(prior[0] + successes, prior[1] + failures)`` over all
    its visits; one visit keeps the share ``memory`` of the evidence before it, since the policy moves on. A
    problem's weight is the expected deviation of one verdict,

        w = E[sqrt(p (1 - p))] = B(a + 1/2, b + 1/2) / B(a, b),    B Euler's beta function,

    and of ``n`` times the number of problems, spent exactly, each gets a share in proportion to ``w``, no fewer than
    ``min_n`` and no more than ``max_n``: :func:`share_out`. A new problem has the prior's weight, so the first epoch
    is uniform if all are new. Stands first, in the place of uniform.

    Only scorable rollouts from the plain prompt are evidence: branches and seeded rollouts say nothing of the pass
    rate, verifier errors nothing at all. Groups that were dropped are evidence too. Degenerate cases: an empty batch
    asks for nothing; problems that have rollouts get no more; all-solved and all-failed problems keep a positive
    weight, and ``min_n`` keeps them in view. The last 100,000 problems are remembered, an older one is new again.

    Source: CurES (Zeng et al., arXiv 2510.01037), as XRPO (arXiv 2510.06672, section 2.2 and appendix G) describes
    it: difficulty by Bayesian posterior updates, allocation by difficulty. Decided here: the expectation over the
    posterior in closed form (a plug-in estimate would give a problem that was solved twice no rollouts at all),
    floor and cap, forgetting, and that the posterior starts from the prior and learns while training; the paper
    estimates it before. Its re-weighting of which problems are drawn is left to the stage ``skip``.

    Raises:
        ValidationError: ``min_n <= n <= max_n`` does not hold, so that the budget could not be spent.
    """

    prior: tuple[Positive, Positive] = Field((1.0, 1.0), description="pseudo-counts of successes and failures")
    memory: float = Field(1.0, ge=0, le=1, description="discount of earlier evidence at each visit; 1: no discount")

    _evidence: dict[str, tuple[float, float]] = PrivateAttr(default_factory=dict)

    def counts(self, problems: Sequence[Problem], ties: Sequence[int]) -> list[int]:
        self._numbers = {"known": float(sum(problem.id in self._evidence for problem in problems))}
        weights = [self.weight(problem.id) for problem in problems]
        return share_out(weights, self.n * len(problems), (self.min_n, self.max_n), ties)

    def weight(self, problem_id: str) -> float:
        """``E[sqrt(p (1 - p))]`` under the posterior of a problem; at most 1/2."""
        successes, failures = self._evidence.get(problem_id, (0.0, 0.0))
        a, b = self.prior[0] + successes, self.prior[1] + failures
        # grouped so that (a, b) and (b, a) give the same number to the last bit, which makes a tie a tie
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
        """Successes and failures of each problem, that of longest ago first."""
        return {"evidence": [[key, *counts] for key, counts in self._evidence.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._evidence = {key: (successes, failures) for key, successes, failures in state["evidence"]}


def share_out(weights: Sequence[float], total: int, bounds: tuple[int, int], ties: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to positive ``weights``, within ``bounds``, that sum to ``total`` exactly.

    Neyman's allocation in integers: one after another goes to where ``w / sqrt(n (n + 1))`` is largest, which
    minimises ``sum w^2 / n`` over all allocations within the bounds (Wright 2012, "The equivalence of Neyman optimum
    allocation for sampling and equal proportions for apportioning the U.S. House of Representatives"). Rounding by
    largest remainder knows neither floor nor cap. Equal weights differ by one at most, the lower ``ties`` first.

    The bounds must leave room: ``bounds[0] >= 1`` and ``total`` between ``len(weights)`` times either.

    >>> share_out([1.0, 2.0, 4.0], 14, (1, 32), [0, 0, 0]), share_out([1.0, 2.0, 4.0], 14, (3, 6), [0, 0, 0])
    ([2, 4, 8], [3, 5, 6])
    """
    low, high = bounds
    room = total - low * len(weights)
    return raised([low] * len(weights), room, high, lambda i, n: weights[i] / sqrt(n * (n + 1)), ties)
