"""Invest: allocates rollouts so that the gradient variance is as small as possible for a given number of generated
tokens."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import comb, exp, fsum, nan
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from outrider.explore.bounds import Bounds
from outrider.explore.pass_rate_model import PassRateModel
from outrider.explore.rate import Rate
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, Problem, SampleRequest, identity_seed


class Invest(PlansAhead, Stage):
    r"""Allocates the token budget of ``n`` rollouts per problem so that the step's gradient variance is minimal.

    The objective is explicit: the mean over problems of :math:`U_k(p) = 1 - (1 - p)^k`. Advantages should come from the
    credit component ``stated_goal`` (:class:`~outrider.credit.stated_goal.StatedGoal`) with the same ``k``. The
    gradient estimate is then unbiased, as long as the number of a problem's rollouts does not depend on their outcomes.
    An allocation that depends only on earlier steps therefore changes the variance and never the objective. The
    variance contributed by ``n`` rollouts of a problem is

    .. math:: F \, \mathrm{E}[A^2] / n

    Here :math:`F` is the gradient noise (:func:`~outrider.explore.pass_rate_model.noise`, the expected squared norm of
    a score) and :math:`\mathrm{E}[A^2]` the expected squared advantage of a rollout (:func:`spread`). The formula is
    exact if scores (gradients of log-probabilities) have mean zero and a norm that does not depend on the reward. VIP
    (theorem 5.2) makes the same assumptions, and also assumes that :math:`F` is equal for all problems.
    :class:`~outrider.explore.pass_rate_model.PassRateModel` predicts each problem's pass rate, gradient noise and
    tokens per rollout. All problems start with ``min_n`` rollouts. Then each further rollout goes to the problem with
    the largest decrease in variance per predicted token, until the budget is spent. The decrease in variance becomes
    smaller with n, so no other allocation of the same number of tokens has a smaller variance. This is exact except for
    rounding: at the end, a few tokens may remain that are not enough for another rollout. Longer responses cost more
    tokens but also have more gradient noise, so response length hardly affects the allocation.

    The stage plans once, before the step, and adds no prefix, hint or example to a prompt. If the number of a problem's
    rollouts depended on their outcomes, the gradient estimate from all of these rollouts would be biased. Continuations
    of a prefix and responses to a prompt with examples are not samples of the policy whose gradient is estimated. An
    unbiased alternative would be two rounds of at least ``max(k, 2)`` rollouts each, with separate baselines per round
    and fixed weights to combine the rounds. We have not tried this alternative.

    The stage learns from every rollout that the verifier could score, including rollouts in dropped groups. Branches
    and rollouts with hints or in-context examples are ignored. In a recipe, this stage replaces ``uniform``, which
    samples the first rollouts. With a baseline other than ``stated_goal``, the number of rollouts may affect the
    objective. Degenerate cases: every problem gets ``n`` rollouts in the first step, and also if the predicted variance
    of every problem is 0. For an empty batch the stage requests nothing. Problems that already have rollouts get no
    further rollouts. If all problems have ``max_n`` rollouts, the rest of the token budget is not spent (metric
    ``unspent``).

    Raises:
        ValidationError: ``k <= min_n <= n <= max_n`` does not hold.
        ValueError: the recipe's ``credit`` contains ``stated_goal`` with another ``k`` than this stage.

    >>> Invest(k=2).min_n
    2
    """

    n: int = Field(
        8,
        ge=1,
        description=(
            "token budget of a training step, expressed as the number of rollouts per problem under a uniform "
            "allocation"
        ),
    )
    min_n: int = Field(
        2,
        ge=2,
        description=(
            "minimum number of rollouts per problem in a training step; must not be below the k of the pass@k objective"
        ),
    )
    max_n: int = Field(64, ge=2, description="maximum number of rollouts per problem in a training step")
    k: int = Field(1, ge=1, description="k of the pass@k objective whose gradient variance is minimised")

    _model: PassRateModel = PrivateAttr(default_factory=PassRateModel)
    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_spent(self) -> Self:
        if not self.k <= self.min_n <= self.n <= self.max_n:
            given = f"k is {self.k}, min_n {self.min_n}, n {self.n} and max_n {self.max_n}"
            raise ValueError(f"k <= min_n <= n <= max_n does not hold: {given}")
        return self

    def check(self, around: Surroundings) -> None:
        around.refuse_drawn()
        if around.goal not in (None, self.k):
            raise ValueError(f"k is {self.k}, but credit.main has the pass@k objective with k = {around.goal}")

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        if before.most != 0:
            return before
        return Bounds(self.min_n * problems, self.max_n * problems, (self.min_n, self.max_n))

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        problems = [group.problem for group in view.groups if not group.size]
        predicted = [self._model.predict(problem) for problem in problems]
        tokens = [each.tokens for each in predicted]
        ties = [identity_seed(view.seed, "invest", view.step, problem.id) for problem in problems]
        counts = self.shares(lambda i, n: predicted[i].noise * spread(predicted[i].rate, n, self.k) / n, tokens, ties)
        planned = fsum(n * each for n, each in zip(counts, tokens, strict=True))
        self._numbers = {
            "fewest": float(min(counts, default=0)),
            "most": float(max(counts, default=0)),
            "planned_tokens": planned,
            "unspent": self.n * fsum(tokens) - planned,
            "predicted": fsum(each.rate.mean for each in predicted) / len(predicted) if predicted else nan,
        }
        return [SampleRequest(problem, n=n) for problem, n in zip(problems, counts, strict=True)]

    def shares(self, variance: Callable[[int, int], float], tokens: Sequence[float], ties: Sequence[int]) -> list[int]:
        """Return the number of rollouts for each problem. ``variance(i, n)`` is the variance that problem i contributes
        with n rollouts, and ``tokens`` has each problem's tokens per rollout.

        Ties go to the problem with fewer rollouts, then to the problem with the smaller value of ``ties``.

        >>> Invest(n=4).shares(lambda i, n: [0.2, 0.0, 0.2][i] / (n - 1), [10.0, 10.0, 40.0], ties=[0, 1, 2])
        [6, 2, 4]
        """

        def entry(i: int) -> tuple[float, int, int, int]:
            gain = (variance(i, counts[i]) - variance(i, counts[i] + 1)) / tokens[i]
            return -gain, counts[i], ties[i], i

        counts = [self.min_n] * len(tokens)
        left = (self.n - self.min_n) * fsum(tokens)
        rounding = 1e-9 * left  # tolerance for the sums below
        queue = [entry(i) for i in range(len(tokens))]
        heapq.heapify(queue)
        while queue:
            *_, i = heapq.heappop(queue)
            # a problem at its maximum, or with longer rollouts than the remaining tokens, leaves the queue
            if counts[i] < self.max_n and tokens[i] <= left + rounding:
                counts[i] += 1
                left -= tokens[i]
                heapq.heappush(queue, entry(i))
        return counts

    def predicted(self, problem: Problem) -> float:
        return self._model.predict(problem).rate.mean

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Learn from a step, and return the metrics of the step's plan and of the pass-rate model."""
        self._model.learn(groups)
        return self._numbers | self._model.numbers()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the pass-rate model."""
        return self._model.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._model.load_state_dict(state)


@lru_cache(maxsize=4096)  # most problems of a step are new, with equal predictions within a level
def spread(rate: Rate, n: int, k: int) -> float:
    r"""Return the expected squared advantage of a rollout in a group of ``n``, for a beta-distributed pass rate and the
    pass@k advantages of ``stated_goal``.

    .. math:: \frac{n}{n - 1} \mathrm{E}[p (1 - p)], \qquad \sum_z \tbinom{n - 1}{z}
        \left(k \tbinom{z}{k - 1} / \tbinom{n - 1}{k - 1}\right)^2 \mathrm{E}[p^{n - z} (1 - p)^z]

    The first formula holds for k = 1, the second for k > 1. In the second formula, failures have advantage 0, and z is
    the number of failures among the other n - 1 rollouts. ``n >= max(k, 2)``.

    >>> round(spread(Rate(1.0, 1.0), 2, 1), 6), round(spread(Rate(1.0, 1.0), 3, 2), 6)
    (0.333333, 0.5)
    """
    if k == 1:
        return n / (n - 1) * rate.moment(1, 1)
    shares = (k * comb(z, k - 1) / comb(n - 1, k - 1) for z in range(n))
    return fsum(comb(n - 1, z) * share**2 * exp(rate.log_chance(n - z, z)) for z, share in enumerate(shares))
