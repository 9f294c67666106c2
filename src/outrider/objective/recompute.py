"""Off-policy correction that only recomputes the old log-probabilities with the learner. Uses only NumPy."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Flags, Floats
from outrider.objective.correction import Correction


class Recompute(Correction):
    """Takes old log-probabilities from the learner, with importance weights of 1, as if the learner had sampled the
    tokens."""

    @property
    def per_weight(self) -> bool:
        return True

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        return np.ones_like(weights), np.zeros(len(weights), np.bool_)
