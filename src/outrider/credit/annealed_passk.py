"""Pass@k training with an annealed k: the objective is pass@k early in the run, and by default pass@1 late in the
run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.members import Members
from outrider.credit.passk import PassK


class AnnealedPassK(Baseline):
    r"""Pass@k training (:class:`PassK`) in which k falls linearly from ``first`` to ``last`` over ``steps`` training
    steps.

    .. math:: k_s = \text{first} - \Big\lfloor (\text{first} - \text{last} + 1)
              \min\Big(\frac{s - 1}{\text{steps}}, 1\Big) \Big\rfloor, \quad \text{at least last}

    Here :math:`k_s` is the k of training step s, counted from 1. Each k is used for the same number of steps; after the
    schedule k stays at ``last``. With k = 1, the variant ``training`` subtracts the group's mean reward and divides by
    the population standard deviation.

    Degenerate cases: as in :class:`PassK`, all rollouts of a group get advantage 0 if the verifier could score fewer
    than k of them.

    Source: PKPO, arXiv 2505.15201, reports that annealing k raises both pass@1 and pass@k. We could not find the
    paper's schedule, so **the schedule is ours**. Pass@k Training (arXiv 2508.10751) does not anneal.

    >>> [AnnealedPassK(first=4, last=1, steps=8).at(step) for step in range(1, 11)]
    [4, 4, 3, 3, 2, 2, 1, 1, 1, 1]
    """

    first: int = Field(
        4,
        ge=1,
        description="k of the pass@k objective in the first training step; at most the number of rollouts per problem",
    )
    last: int = Field(
        1, ge=1, description="k of the pass@k objective at the end of the schedule and in all later training steps"
    )
    steps: int = Field(100, ge=1, description="number of training steps over which k decreases from first to last")
    variant: Literal["training", "pkpo", "pkpo_centred"] = Field(
        "training",
        description=(
            'estimator of the advantages: as in the paper "Pass@k Training" (training), as in the paper "PKPO" (pkpo), '
            "or PKPO's transformed rewards minus their group mean (pkpo_centred)"
        ),
    )

    @model_validator(mode="after")
    def _falls(self) -> AnnealedPassK:
        if self.last > self.first:
            raise ValueError(f"last is {self.last}, but should be at most first, {self.first}")
        return self

    @property
    def needs_step(self) -> bool:
        return True

    def at(self, step: int) -> int:
        """Return k at a training step, counted from 1."""
        return max(self.last, self.first - (self.first - self.last + 1) * (step - 1) // self.steps)

    def advantages(self, members: Members) -> Floats:
        """Return the advantages of one group, computed with the k of the first training step."""
        return PassK(k=self.first, variant=self.variant).advantages(members)

    def of_stream(self, groups: Sequence[Members], step: int = 1) -> list[list[Floats]]:
        return PassK(k=self.at(step), variant=self.variant).of_stream(groups, step)
