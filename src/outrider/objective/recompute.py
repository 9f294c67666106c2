"""Old log-probabilities by the learner. NumPy only."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Flags, Floats
from outrider.objective.correction import Correction


class Recompute(Correction):
    """Old log-probabilities are the learner's own; the samples are taken as if they were too: every weight is 1."""

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        return np.ones_like(weights), np.zeros(len(weights), np.bool_)
