"""Off-policy correction with truncated importance weights. Uses only NumPy."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from outrider.arrays import Flags, Floats
from outrider.objective.correction import Correction, WeightLevel


class Truncate(Correction):
    r"""Takes old log-probabilities from the learner, and truncates importance weights: :math:`\min(w, \mathrm{cap})`.

    Source: Yao and others 2025, "Your efficient RL framework secretly brings you off-policy RL training" (token weights
    truncated at 2).
    """

    level: WeightLevel = Field(
        "token",
        description=(
            "level of the importance weight: the weight of each token (token), the product of a response's token "
            "weights (sequence), or their geometric mean (geometric)"
        ),
    )
    cap: float = Field(2.0, gt=0, description="maximum importance weight; larger weights are set to this value")

    @property
    def weight_level(self) -> WeightLevel:
        return self.level

    @property
    def per_weight(self) -> bool:
        return True

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        cut = np.minimum(weights, self.cap)
        return cut, cut != weights
