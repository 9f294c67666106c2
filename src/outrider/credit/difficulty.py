"""Difficulty weighting (GRPO-LEAD): outcomes that are rare in their group get more weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, model_validator

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members


class Difficulty(Shaper):
    r"""Scales advantages by a logistic function of the group's success rate.

    .. math:: \tilde A_{i,t} = A_{i,t} \begin{cases} w(\rho) & A_{i,t} > 0 \\ w(1 - \rho) & \text{otherwise} \end{cases}
              \qquad w(\rho) = a + \frac{b - a}{1 + e^{k (\rho - \rho_0)}}

    Here :math:`\rho` is the success rate of the valid members, and a, b, k and :math:`\rho_0` are ``low``, ``high``,
    ``slope`` and ``midpoint``. Successes on hard problems and failures on easy problems get a weight close to ``high``;
    expected outcomes get a weight close to ``low``. If branches have their own loss stream (a separately weighted part
    of the loss), :math:`\rho` is the success rate of the group's branches there.

    Both weights are above 0, so no advantage changes its sign. If the baseline divides by the group's standard
    deviation (:class:`GroupMean`), advantages are weighted by difficulty twice.

    Degenerate cases: an advantage of 0 stays 0, so groups without a gradient and invalid members (rollouts that the
    verifier could not score) do not change. Invalid members are ignored in :math:`\rho`.

    Source: GRPO-LEAD, arXiv 2504.09696, difficulty-aware advantage reweighting, with the released code's defaults. The
    released code counts a shaped reward above 0 as a success; this shaper uses the verifier's verdict.

    >>> m = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.array([1, 1, 1, 0]))
    >>> base = [np.array([1.0]), np.array([-0.5]), np.array([-0.5]), np.zeros(0)]
    >>> [a.round(3).tolist() for a in Difficulty().shape(base, m, 1)]
    [[1.483], [-0.583], [-0.583], []]
    """

    low: float = Field(
        0.4,
        gt=0,
        description=(
            "minimum factor by which an advantage is multiplied; factors are near this minimum for expected outcomes "
            "(successes in groups that mostly succeed, and failures in groups that mostly fail)"
        ),
    )
    high: float = Field(
        1.5,
        gt=0,
        description=(
            "maximum factor by which an advantage is multiplied; factors are near this maximum for rare outcomes "
            "(successes in groups that mostly fail, and failures in groups that mostly succeed)"
        ),
    )
    midpoint: float = Field(
        0.75,
        ge=0,
        le=1,
        description=(
            "group success rate at which the factor for successes is halfway between its minimum and maximum; the "
            "factor for failures is halfway at the success rate 1 - midpoint"
        ),
    )
    slope: float = Field(
        10.0,
        ge=0,
        description="steepness of the factor as a function of the success rate; 0: the same factor for all groups",
    )

    @model_validator(mode="after")
    def _rare_counts_more(self) -> Difficulty:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, but should be at most high, {self.high}")
        return self

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        successes = members.success_G[members.valid_G]
        rate = float(successes.mean()) if len(successes) else 0.0  # no valid member: every advantage is 0
        rise, fall = self.of(rate), self.of(1.0 - rate)
        return [a * np.where(a > 0, rise, fall) for a in advantages_GT]

    def of(self, rate: float) -> float:
        """Return the weight of a positive advantage at the given success rate."""
        logistic = (1.0 - np.tanh(self.slope * (rate - self.midpoint) / 2)) / 2
        return float(self.low + (self.high - self.low) * logistic)
