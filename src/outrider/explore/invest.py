"""Invest: rollouts where they take most off the variance of a step's gradient per token that they cost."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from math import fsum, nan
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator

from outrider.explore.belief import Belief
from outrider.explore.stage import Bounds, Stage, Surroundings
from outrider.explore.view import View
from outrider.record import Group, SampleRequest, identity_seed


class Invest(Stage):
    r"""Spends the tokens that ``n`` rollouts of every problem would cost where they teach most.

    The goal is stated: the mean over problems of :math:`U_k(p) = 1 - (1 - p)^k`. Credit ``stated_goal`` gives an
    unbiased estimate of its gradient from any number of rollouts that does not depend on how they end; so one that
    looks at earlier steps alone changes the variance, and never the goal. Of a problem with ``n`` rollouts that is

    .. math:: \frac{\mathrm{E}[U_k'(p)^2\, p (1 - p)]}{n - 1}, \qquad U_k'(p) = k (1 - p)^{k-1},

    up to a factor that all problems share, exactly for ``k`` = 1 where scores are independent of rewards (VIP, theorem
    5.2), to leading order otherwise. The expectation, and the price of a rollout, are those of
    :class:`~outrider.explore.belief.Belief`. From ``min_n`` up, one rollout after another goes to where it takes most
    off per expected token, as long as the step's tokens last. Gains fall with ``n``, so but for the last rollouts no
    allocation has less variance at that price; what is left is less than a rollout costs.

    Only scorable rollouts from the plain prompt are evidence, of dropped groups too. Stands first, in the place of
    uniform. Degenerate cases: in the first step all are alike, and everybody gets ``n``; an empty batch asks for
    nothing; problems that have rollouts get no more; where all are at ``max_n`` tokens are left over (``unspent``).

    Raises:
        ValidationError: ``min_n <= n <= max_n`` does not hold, or ``min_n`` is below ``k``.

    >>> Invest(k=2).min_n
    2
    """

    n: int = Field(8, ge=1, description="rollouts per problem whose price a step may cost, if all got as many")
    min_n: int = Field(2, ge=2, description="fewest rollouts of a problem; at least k")
    max_n: int = Field(64, ge=2, description="most rollouts of a problem")
    k: int = Field(1, ge=1, description="tries of which the best counts, in the goal")

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

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        if before.most != 0:
            return before
        return Bounds(self.min_n * problems, self.max_n * problems, (self.min_n, self.max_n))

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        problems = [group.problem for group in view.groups if not group.size]
        rates = [self._belief.rate(problem) for problem in problems]
        spreads = [self.k**2 * rate.moment(1, 2 * self.k - 1) for rate in rates]
        prices = [self._belief.price(problem) for problem in problems]
        ties = [identity_seed(view.seed, "invest", view.step, problem.id) for problem in problems]
        counts = self.shares(spreads, prices, ties)
        planned = fsum(n * price for n, price in zip(counts, prices, strict=True))
        self._numbers = {
            "fewest": float(min(counts, default=0)),
            "most": float(max(counts, default=0)),
            "planned_tokens": planned,
            "unspent": self.n * fsum(prices) - planned,
            "predicted": fsum(rate.mean for rate in rates) / len(rates) if rates else nan,
        }
        return [SampleRequest(problem, n=n) for problem, n in zip(problems, counts, strict=True)]

    def shares(self, spreads: Sequence[float], prices: Sequence[float], ties: Sequence[int]) -> list[int]:
        """Rollouts of every problem, by what its variance is for one and by its price; equals by the smaller of
        ``ties``.

        >>> Invest(n=4).shares([0.2, 0.0, 0.2], [10.0, 10.0, 40.0], ties=[0, 1, 2])
        [6, 2, 4]
        """

        def gain(i: int) -> float:
            n = counts[i]
            return spreads[i] / (n * (n - 1)) / prices[i]  # 1 / (n - 1) - 1 / n

        counts = [self.min_n] * len(prices)
        left = (self.n - self.min_n) * fsum(prices)
        queue = [(-gain(i), ties[i], i) for i in range(len(prices))]
        heapq.heapify(queue)
        while queue:
            _, tie, i = heapq.heappop(queue)
            # who has all it may have, or is too dear for what is left, gets no more
            if counts[i] < self.max_n and prices[i] <= left:
                counts[i] += 1
                left -= prices[i]
                heapq.heappush(queue, (-gain(i), tie, i))
        return counts

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """What was planned; ``surprise`` of a rollout in nats, and the ``memory`` that is believed from now on."""
        self._belief.learn(groups)
        return self._numbers | {"surprise": self._belief.surprise, "memory": self._belief.memory}

    def state_dict(self) -> dict[str, Any]:
        """That of the belief."""
        return self._belief.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._belief.load_state_dict(state)
