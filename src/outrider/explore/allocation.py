"""Base class of stages that spread a step's rollout budget unevenly over its problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, PrivateAttr, model_validator

from outrider.explore.bounds import Bounds
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.surroundings import Surroundings
from outrider.explore.view import View
from outrider.record import Problem, SampleRequest, identity_seed


class Allocation(PlansAhead, Stage):
    """Allocates ``n`` rollouts per problem on average; the subclass's method :meth:`counts` decides how many each
    problem gets.

    The total of a step is exactly ``n`` times the step's number of problems. The stage comes first in ``explore`` and
    replaces the stage ``uniform``. Degenerate cases: for an empty batch the stage requests nothing. Problems that
    already have rollouts get no further rollouts.

    Raises:
        ValidationError: ``min_n <= n <= max_n`` does not hold, so the budget could not be spent.
    """

    n: int = Field(
        8,
        ge=1,
        description=(
            "mean number of rollouts per problem; a training step with P problems samples exactly n * P rollouts"
        ),
    )
    min_n: int = Field(2, ge=1, description="minimum number of rollouts per problem in a training step")
    max_n: int = Field(32, ge=1, description="maximum number of rollouts per problem in a training step")

    _numbers: dict[str, float] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_spent(self) -> Self:
        if not self.min_n <= self.n <= self.max_n:
            raise ValueError(
                f"n is {self.n}, the mean over a step's problems, so it must lie between "
                f"min_n, which is {self.min_n}, and max_n, which is {self.max_n}"
            )
        return self

    def check(self, around: Surroundings) -> None:
        around.refuse_drawn()

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before.begun(self.n * problems, (self.min_n, self.max_n))

    def plan(self, view: View) -> list[SampleRequest]:
        if view.round:
            return []
        problems = [group.problem for group in view.groups if not group.size]
        name = type(self).__name__.lower()
        counts = self.counts(problems, [identity_seed(view.seed, name, view.step, p.id) for p in problems])
        self._numbers |= {"fewest": float(min(counts, default=0)), "most": float(max(counts, default=0))}
        return [SampleRequest(problem, n=n) for problem, n in zip(problems, counts, strict=True)]

    def counts(self, problems: Sequence[Problem], ties: Sequence[int]) -> list[int]:
        """Return the number of rollouts for each problem; the numbers sum to ``n`` times the number of problems.

        Ties go to the problem with the smaller value in ``ties``. The method also sets the step's metrics
        (``_numbers``); :meth:`plan` adds the minimum and maximum number of rollouts per problem.
        """
        raise NotImplementedError
