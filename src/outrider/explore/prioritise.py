"""Prioritised allocation (XRPO): more rollouts for problems where they reduce the uncertainty of the pass rate most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from outrider.arrays import Floats
from outrider.errors import UserError
from outrider.explore.apportion import apportion
from outrider.explore.bounds import Bounds
from outrider.explore.outcome import evidence, outcome
from outrider.explore.seed import Seed
from outrider.explore.stage import Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, SampleRequest, identity_seed

Counts = NDArray[np.int64]


def reduction(successes_P: Counts, n_P: Counts, confidence: float) -> Floats:
    """Predict how much one more rollout reduces the half-width of the confidence interval of each problem's pass rate.

    The reduction is ``Δ(n) = h(n) - h(n + 1)``, where ``h(n) = t s / sqrt(n)`` (Eqs. 1 and 2). ``t`` is the ``(1 +
    confidence) / 2`` quantile of Student's t distribution with ``n - 1`` degrees of freedom. ``s`` is the sample
    standard deviation (denominator ``n - 1``) of the 0/1 outcomes, assumed not to change. The reduction is 0 if all
    outcomes are equal.

    With fewer than two rollouts ``s`` is undefined and the interval is infinite. Our choice: such a problem counts as
    having two rollouts with ``s = 0.5``, and its reduction is capped at the largest reduction among problems with known
    ``s``. Recipes sample at least two rollouts per problem, but verifier errors may leave fewer. Without the cap, such
    problems would outweigh every problem with more verified rollouts.

    >>> reduction(np.array([2, 4, 1]), np.array([4, 4, 1]), confidence=0.95).round(3).tolist()
    [0.202, 0.0, 0.202]
    """
    # imported here: the import is slow, and this layer must import fast
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    known_P = n_P > 1
    s_P = np.sqrt(successes_P * (n_P - successes_P) / np.maximum(n_P * (n_P - 1), 1))
    s_P, n_P = np.where(known_P, s_P, 0.5), np.maximum(n_P, 2)
    quantile = (1 + confidence) / 2
    now_P, then_P = stdtrit(n_P - 1, quantile) / np.sqrt(n_P), stdtrit(n_P, quantile) / np.sqrt(n_P + 1)
    reduced_P = np.asarray(s_P * (now_P - then_P), np.float64)
    return np.minimum(reduced_P, reduced_P[known_P].max() if known_P.any() else np.inf)


def exploration_bonus(n_P: Counts, pulls: int, weight: float) -> Floats:
    """Return ``weight * sqrt(log(1 + pulls) / n)``, which is larger for problems with few rollouts; n = 0 counts as 1.

    >>> exploration_bonus(np.array([4]), pulls=32, weight=0.1).round(3).tolist()
    [0.093]
    """
    return np.asarray(weight * np.sqrt(np.log1p(pulls) / np.maximum(n_P, 1)), np.float64)


class Prioritise(Stage):
    """Divides the remaining rollouts of a step's budget ``total`` among the problems, in proportion to their
    priorities.

    A problem q with ``n_q`` rollouts has the priority ``Π_q = Δ_q(n_q) + λ sqrt(log(1 + T) / n_q)`` (Eq. 3), the sum of
    :func:`reduction` and :func:`exploration_bonus`. λ is the option ``bonus``, and T the number of rollouts to allocate
    in the round (with ``cumulative``, the number of the step's rollouts up to the end of the round). The remaining
    budget is split evenly over ``rounds``; a remainder goes to earlier rounds.
    :func:`outrider.explore.apportion.apportion` divides a round's budget. Ties go to problems with fewer rollouts; a
    random order, drawn for the round, breaks further ties. Priorities are re-estimated in each round. The estimate uses
    all rollouts of a problem that start at its prompt and that the verifier could score. If the option ``seed`` is set,
    problems without a success so far get in-context examples (:class:`outrider.explore.seed.Seed`). From the round
    after its first success on, a problem gets no examples. ``total`` counts every rollout of the step, including
    rollouts of earlier stages, and is spent exactly.

    Degenerate cases: if all outcomes of a problem are equal, Δ is 0 and only the bonus counts. Solved and unsolved
    problems therefore rank equally, unless ``skip_solved`` excludes solved problems. If all priorities are 0, all
    problems get equal shares. Groups that an earlier stage dropped get nothing; if no problem is left, the budget stays
    unspent (metric ``unspent``). A problem gets nothing if the verifier could score none of its rollouts (metric
    ``unscorable``); if this holds for all problems, all get equal shares. Earlier stages whose number of rollouts
    depends on outcomes may use up or exceed the budget (metric ``overdrawn``). For an empty batch the stage requests
    nothing. There is no minimum, so a problem may get no rollout (Appendix J of the paper reports 0 to 7 per problem).

    Our choices where the paper is ambiguous: we read the paper's alpha = 0.95 as a confidence *level*. As a
    significance level, 0.95 would give the quantile ``1 - 0.95 / 2 = 0.525``, and the bonus would dominate Δ. λ, which
    the paper does not give, is 0.1. T is by default the budget of the round. The paper allocates "the next rollout" in
    one place and "in proportion" in another; we allocate in proportion. The metric ``effective_problems`` is ``(Σ n)^2
    / Σ n^2``; ``weight_max`` is the largest group size divided by the mean group size. If every rollout or token has
    the same weight in the loss, a problem's weight is its share of rollouts, which depends on outcomes.

    Source: XRPO (arXiv 2510.06672), section 3.2, Algorithm 1.

    Raises:
        UserError: no problem has a rollout yet.

    >>> Prioritise(total=128).rounds
    2
    """

    total: int = Field(
        128,
        ge=2,
        description=(
            "total number of rollouts per training step, over all problems, counting those already sampled in this step"
        ),
    )
    rounds: int = Field(
        2,
        ge=1,
        le=64,
        description=(
            "number of rounds in which rollouts are allocated to problems; each round uses updated pass-rate estimates"
        ),
    )
    confidence: float = Field(
        0.95,
        gt=0,
        lt=1,
        description=(
            "confidence level of the interval around each problem's pass rate; priorities are higher for problems "
            "whose interval would shrink more with another rollout"
        ),
    )
    bonus: float = Field(
        0.1,
        ge=0,
        description=(
            "weight of the exploration bonus in a problem's priority; the bonus is larger for problems with fewer "
            "rollouts"
        ),
    )
    cumulative: bool = Field(
        False,
        description=(
            "whether T, in the exploration bonus sqrt(log(1 + T) / n) of a problem with n rollouts, counts all "
            "rollouts of the training step up to the end of the current round; false: T counts only the rollouts of "
            "the current round"
        ),
    )
    skip_solved: bool = Field(
        False, description="whether to stop sampling problems whose rollouts in this training step have all succeeded"
    )
    pool_seeded: bool = Field(
        True,
        description=(
            "whether rollouts with in-context examples count when the confidence interval of a problem's pass rate is"
            " computed; the exploration bonus always counts them"
        ),
    )
    seed: Seed | None = Field(
        None,
        description=(
            "settings for adding in-context examples to the prompts of problems without a success; null: add no "
            "examples"
        ),
    )

    _counts: Counter[str] = PrivateAttr(default_factory=Counter)
    _extra: Counter[str] = PrivateAttr(default_factory=Counter)

    def check(self, around: Surroundings) -> None:
        drawn = around.bounds
        if not around.before or drawn.first[0] == 1:
            raise ValueError(
                "prioritise ranks problems by their rollouts so far: put uniform before it, with n at least 2"
            )
        if drawn.fewest >= self.total:
            raise ValueError(
                f"prioritise.total is {self.total} rollouts per step, but the stages before it sample {drawn.fewest} "
                f"for {around.problems} problems, so none is left to allocate"
            )

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before if before.most is None else before._replace(most=max(before.most, self.total))

    def prepare(self) -> None:
        if self.seed is not None:
            self.seed.embed.prepare()

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round == 0:
            self._counts.clear()
            self._extra.clear()
            self._refuse_nothing_to_rank(view.groups)
        left = self.total - sum(g.size for g in view.groups)
        self._counts["overdrawn"] = max(0, -left)
        eligible = self._eligible(view.groups)
        if not eligible or view.round >= self.rounds or left <= 0:
            self._counts["unspent"] = max(0, left) if view.groups else 0
            return []
        budget = -(-left // (self.rounds - view.round))  # rounded up
        extra_P = self._allocate(eligible, budget, view)
        for group, extra in zip(eligible, extra_P, strict=True):
            self._extra[group.problem.id] += extra
            self._counts["extra_unsolved"] += extra * (not group.successes)
            self._counts["extra_solved"] += extra * (outcome(group) == "solved")
        return self._requests(eligible, extra_P, view)

    def _eligible(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that may get more rollouts.

        Dropped groups get none, and with ``skip_solved`` solved groups get none either. Unscorable groups get rollouts
        only if all groups are unscorable.
        """
        kept = [(g, outcome(g)) for g in groups if not g.dropped]
        unscorable = {g.id for g, found in kept if g.size and found == "unscorable"}
        self._counts["unscorable"] = len(unscorable)
        passed_over = unscorable if len(unscorable) < len(kept) else set()
        return [g for g, found in kept if g.id not in passed_over and not (self.skip_solved and found == "solved")]

    def _allocate(self, groups: Sequence[Group], budget: int, view: View) -> list[int]:
        """Return each group's number of new rollouts in this round."""
        roots_P = [g.roots for g in groups]
        counted_P = [[r for r in evidence(roots) if self.pool_seeded or r.context.kind == "plain"] for roots in roots_P]
        tried_P = np.array([len(roots) for roots in roots_P])
        successes_P = np.array([sum(r.success for r in counted) for counted in counted_P])
        pulls = budget + (sum(g.size for g in view.groups) if self.cumulative else 0)
        shrinks_P = reduction(successes_P, np.array([len(counted) for counted in counted_P]), self.confidence)
        priority_P = shrinks_P + exploration_bonus(tried_P, pulls, self.bonus)
        ties_P = [
            (g.size, identity_seed(view.seed, "prioritise", view.step, view.round, g.problem.id), g.problem.id)
            for g in groups
        ]
        return apportion(priority_P.tolist(), budget, ties_P)

    def _requests(self, groups: Sequence[Group], extra_P: Sequence[int], view: View) -> list[SampleRequest]:
        plain = [SampleRequest(g.problem, n=extra) for g, extra in zip(groups, extra_P, strict=True) if extra]
        if self.seed is None:
            return plain
        unsolved = {g.problem.id for g in groups if not g.successes}
        seeded = self.seed.seeded([r for r in plain if r.problem.id in unsolved], view)
        return [seeded.get(request.problem.id, request) for request in plain]

    def _refuse_nothing_to_rank(self, groups: Sequence[Group]) -> None:
        if groups and not any(g.size for g in groups):
            raise UserError(
                "prioritise ranks problems by their rollouts so far, but none has any: "
                "put uniform before it in explore, with n at least 2"
            )

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Return a step's metrics.

        ``extra`` counts the rollouts that this stage added. ``extra_unsolved`` counts the added rollouts of problems
        without a success so far, and ``extra_solved`` those of problems without a failure so far. ``extra_max`` is the
        maximum per problem, and ``extra_none`` the share of problems without added rollouts. Further metrics count
        problems without a verifiable rollout, unspent rollouts, and rollouts of earlier stages beyond the budget. The
        remaining metrics describe the problems' weights and the in-context examples.
        """
        names = ("extra_unsolved", "extra_solved", "unscorable", "unspent", "overdrawn")
        counts = {"extra": self._extra.total()} | {name: self._counts[name] for name in names}
        n_P = np.array([g.size for g in groups if g.size], np.float64)
        weights = {
            "effective_problems": float(n_P.sum() ** 2 / (n_P**2).sum()) if len(n_P) else 0.0,
            "weight_max": float(n_P.max() / n_P.mean()) if len(n_P) else 0.0,
            "extra_max": float(max(self._extra.values(), default=0)),
            "extra_none": sum(not self._extra[g.problem.id] for g in groups) / len(groups) if groups else 0.0,
        }
        seeding = {} if self.seed is None else self.seed.observe(groups)
        return {name: float(count) for name, count in counts.items()} | weights | seeding

    def state_dict(self) -> dict[str, Any]:
        return {} if self.seed is None else {"seed": self.seed.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.seed is None:
            super().load_state_dict(state)
        else:
            self.seed.load_state_dict(state["seed"])
