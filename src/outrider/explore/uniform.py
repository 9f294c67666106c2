"""Uniform allocation: the same number of rollouts for every problem."""

from __future__ import annotations

from pydantic import Field

from outrider.explore.bounds import Bounds
from outrider.explore.stage import PlansAhead, Stage
from outrider.explore.view import View
from outrider.record import SampleRequest


class Uniform(PlansAhead, Stage):
    """Samples ``n`` rollouts per problem from its plain prompt, in one round.

    This is GRPO's allocation (Shao et al. 2024, arXiv 2402.03300) and the first stage of most methods. Degenerate
    cases: for an empty batch the stage requests nothing. A problem that already has rollouts gets no further rollouts.

    >>> Uniform(n=4)
    Uniform(n=4)
    """

    n: int = Field(8, ge=1, description="number of rollouts to sample per problem in a training step")

    def bounds(self, before: Bounds, problems: int) -> Bounds:
        return before.begun(self.n * problems, (self.n, self.n))

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(g.problem, n=self.n) for g in view.groups if not g.size]
