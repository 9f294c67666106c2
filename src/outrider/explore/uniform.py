"""Uniform allocation: the same number of rollouts for every problem."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from outrider.explore.stage import Stage
from outrider.record import Group, SampleRequest


class Uniform(Stage):
    """``n`` rollouts of every problem, from its plain prompt, in one round.

    The allocation of GRPO (Shao et al. 2024, arXiv 2402.03300) and of every method's first stage. An empty batch
    asks for nothing.

    >>> from outrider.record import Group, Problem
    >>> [r.n for r in Uniform(n=4).plan([Group(Problem("a", "1+1="), "train:0:a")], step=0, round=0)]
    [4]
    >>> Uniform(n=4).plan([], step=0, round=1)
    []
    """

    n: int = Field(8, ge=1, description="rollouts per problem")

    def plan(self, groups: Sequence[Group], step: int, round: int) -> list[SampleRequest]:
        return [] if round else [SampleRequest(g.problem, n=self.n) for g in groups]
