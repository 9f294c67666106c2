"""Off-policy correction with masked importance weights. Uses only NumPy."""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from outrider.arrays import Flags, Floats
from outrider.objective.correction import Correction, WeightLevel
from outrider.options import refuse_empty_range


class Mask(Correction):
    r"""Takes old log-probabilities from the learner, and masks tokens or responses whose importance weight is out of
    range.

    The weight is :math:`w` if :math:`\mathrm{low} \le w \le \mathrm{high}`, else 0.

    Sources: Liu and others 2025, "When speed kills stability" (sequence weights); IcePop (token weights, with ``low``
    0.5 and ``high`` 5).
    """

    level: WeightLevel = Field(
        "sequence",
        description=(
            "level of the importance weight: the weight of each token (token), the product of a response's token "
            "weights (sequence), or their geometric mean (geometric)"
        ),
    )
    low: float = Field(
        0.0,
        ge=0,
        description="minimum importance weight; tokens or responses with a smaller weight are excluded from the loss",
    )
    high: float = Field(
        2.0,
        gt=0,
        description="maximum importance weight; tokens or responses with a larger weight are excluded from the loss",
    )

    @model_validator(mode="after")
    def _some_fit(self) -> Mask:
        refuse_empty_range(self.low, self.high)
        return self

    @property
    def weight_level(self) -> WeightLevel:
        return self.level

    @property
    def leaves_out(self) -> bool:
        return self.level == "token"

    @property
    def per_weight(self) -> bool:
        return True

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        masked = np.where((self.low <= weights) & (weights <= self.high), weights, 0.0)
        return masked, masked != weights
