"""Invest: rollouts where they take most off the variance of a step's gradient per token that they cost."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import comb, exp, fsum, nan
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from outrider.explore.belief import Belief
from outrider.explore.bounds import Bounds
from outrider.explore.rate import Rate
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Group, Problem, SampleRequest, identity_seed


class Invest(PlansAhead, Stage):
    r"""Spends the tokens that ``n`` rollouts of every problem would cost where they teach most.

    The goal is stated: the mean over problems of :math:`U_k(p) = 1 - (1 - p)^k`. Credit ``stated_goal``
    (:class:`~outrider.credit.stated_goal.StatedGoal`, whose k has to be this one) gives an unbiased estimate of its
    gradient from any number of rollouts that does not depend on how they end; so one that looks at earlier steps alone
    changes the variance, and never the goal. What ``n`` rollouts of a problem add to it is

    .. math:: F \, \mathrm{E}[A^2] / n

    with their noise :math:`F` (:func:`~outrider.explore.belief.noise`, the expected squared length of a score) and the
    expected square of a rollout's advantage, :func:`spread`; exact where a score's length does not depend on the reward
    and scores have no mean, which is VIP's assumption (theorem 5.2), but for its equal :math:`F` everywhere. Pass rate,
    noise and price are what :class:`~outrider.explore.belief.Belief` expects. From ``min_n`` up, one rollout after
    another goes to where it takes most off per expected token, as long as the step's tokens last. Each takes off less
    than the one before, so but for the last rollouts no allocation has less variance at that price; what is left is
    less than a rollout costs. Long responses are dearer and noisier alike, so length mostly cancels.

    It plans once, before the step, and from the plain prompt: where the number of a problem's rollouts follows from how
    some of them end, an estimate from all of them together is biased, and what continues a prefix or reads examples is
    drawn from another policy than the one whose gradient is asked for. Two waves of ``max(k, 2)`` rollouts or more,
    each with its own baselines and joined by fixed weights, would be unbiased; that was not tried.

    Only scorable rollouts from the plain prompt are evidence, of dropped groups too. Stands first, in the place of
    uniform. With other credit the goal is that credit's, and the number of rollouts may weigh in it. Degenerate cases:
    in the first step all are alike, and everybody gets ``n``; so they do where nothing is left to chance; an empty
    batch asks for nothing; problems that have rollouts get no more; where all are at ``max_n`` tokens are left over
    (``unspent``).

    Raises:
        ValidationError: ``k <= min_n <= n <= max_n`` does not hold.
        ValueError: the recipe's credit states the goal with another ``k``.

    >>> Invest(k=2).min_n
    2
    """

    n: int = Field(8, ge=1, description="mean rollouts per problem that set the budget of a step")
    min_n: int = Field(2, ge=2, description="minimum rollouts per problem; at least k")
    max_n: int = Field(64, ge=2, description="maximum rollouts per problem")
    k: int = Field(1, ge=1, description="k of the pass@k objective")

    _belief: Belief = PrivateAttr(default_factory=Belief)
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
            raise ValueError(f"plans for k = {self.k}, but credit.main states the goal with k = {around.goal}")

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        if before.most != 0:
            return before
        return Bounds(self.min_n * problems, self.max_n * problems, (self.min_n, self.max_n))

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        problems = [group.problem for group in view.groups if not group.size]
        expected = [self._belief.expected(problem) for problem in problems]
        prices = [each.price for each in expected]
        ties = [identity_seed(view.seed, "invest", view.step, problem.id) for problem in problems]
        counts = self.shares(lambda i, n: expected[i].noise * spread(expected[i].rate, n, self.k) / n, prices, ties)
        planned = fsum(n * price for n, price in zip(counts, prices, strict=True))
        self._numbers = {
            "fewest": float(min(counts, default=0)),
            "most": float(max(counts, default=0)),
            "planned_tokens": planned,
            "unspent": self.n * fsum(prices) - planned,
            "predicted": fsum(each.rate.mean for each in expected) / len(expected) if expected else nan,
        }
        return [SampleRequest(problem, n=n) for problem, n in zip(problems, counts, strict=True)]

    def shares(self, variance: Callable[[int, int], float], prices: Sequence[float], ties: Sequence[int]) -> list[int]:
        """Rollouts of every problem, by the variance of problem i with n of them and by its price.

        Equals by fewer rollouts, then by the smaller of ``ties``.

        >>> Invest(n=4).shares(lambda i, n: [0.2, 0.0, 0.2][i] / (n - 1), [10.0, 10.0, 40.0], ties=[0, 1, 2])
        [6, 2, 4]
        """

        def entry(i: int) -> tuple[float, int, int, int]:
            gain = (variance(i, counts[i]) - variance(i, counts[i] + 1)) / prices[i]
            return -gain, counts[i], ties[i], i

        counts = [self.min_n] * len(prices)
        left = (self.n - self.min_n) * fsum(prices)
        rounding = 1e-9 * left  # of the sums below
        queue = [entry(i) for i in range(len(prices))]
        heapq.heapify(queue)
        while queue:
            *_, i = heapq.heappop(queue)
            # who has all it may have, or is too dear for what is left, gets no more
            if counts[i] < self.max_n and prices[i] <= left + rounding:
                counts[i] += 1
                left -= prices[i]
                heapq.heappush(queue, entry(i))
        return counts

    def predicted(self, problem: Problem) -> float:
        return self._belief.expected(problem).rate.mean

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """What was planned, and the numbers of the belief."""
        self._belief.learn(groups)
        return self._numbers | self._belief.numbers()

    def state_dict(self) -> dict[str, Any]:
        """That of the belief."""
        return self._belief.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._belief.load_state_dict(state)


@lru_cache(maxsize=4096)  # most problems of a step are new, and those of a level alike
def spread(rate: Rate, n: int, k: int) -> float:
    r"""The expected square of the advantage that ``stated_goal`` gives one of ``n`` rollouts, by belief.

    .. math:: \frac{n}{n - 1} \mathrm{E}[p (1 - p)], \qquad \sum_z \tbinom{n - 1}{z}
        \left(k \tbinom{z}{k - 1} / \tbinom{n - 1}{k - 1}\right)^2 \mathrm{E}[p^{n - z} (1 - p)^z]

    for k = 1, and for k > 1, where failures get 0, over the number z of failures beside a success. ``n >= max(k, 2)``.

    >>> round(spread(Rate(1.0, 1.0), 2, 1), 6), round(spread(Rate(1.0, 1.0), 3, 2), 6)
    (0.333333, 0.5)
    """
    if k == 1:
        return n / (n - 1) * rate.moment(1, 1)
    shares = (k * comb(z, k - 1) / comb(n - 1, k - 1) for z in range(n))
    return fsum(comb(n - 1, z) * share**2 * exp(rate.log_chance(n - z, z)) for z, share in enumerate(shares))
