"""Recomputed old log-probabilities, from the learner. NumPy only."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Flags, Floats
from outrider.objective.correction import Correction


class Recompute(Correction):
    """Old log-probabilities are the learner's, and every weight is 1, as if the learner had sampled."""

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        return np.ones_like(weights), np.zeros(len(weights), np.bool_)
