"""Weights by verdict: negative, positive and weighted sample reinforcement (NSR, PSR, W-REINFORCE)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members


class Polarity(Shaper):
    r"""Scales the advantages of successes by one number and those of failures by another.

    .. math:: \tilde A_{i,t} = \lambda_+ A_{i,t} \text{ if member } i \text{ succeeds}, \quad
              \lambda_- A_{i,t} \text{ otherwise}

    ``positive: 0`` is NSR, which only pushes failures down; ``negative: 0`` is PSR; ``positive: 0.1`` is W-REINFORCE.
    The paper's estimators have no baseline (:class:`NoBaseline` with rewards of 1 and -1): then the two parts sum to
    REINFORCE, and failures teach also where the whole group fails. After a group baseline they do not.

    Decided: by the verdict, not by the sign of the advantage. The paper splits the objective by what a sample is, and
    the signs need not agree with that: a correct response whose reward was shaped (too long, say) may fall below the
    mean, and would be punished by a method that is to leave successes alone. After a baseline that tells segments of a
    tree apart, a failure's good segment has the weight of a failure.

    Degenerate cases: an advantage of 0, so every token of a group without signal and of a member that is not valid,
    stays 0. With ``positive: 0`` a group of successes alone teaches nothing, with ``negative: 0`` one of failures.

    Source: Zhu et al. 2025, arXiv 2506.01347.

    >>> m = Members(np.array([1.0, 0]), np.array([True, False]), np.array([2, 1]))
    >>> [a.tolist() for a in Polarity(positive=0.25).shape([np.array([1.0, 1.0]), np.array([-1.0])], m, 1)]
    [[0.25, 0.25], [-1.0]]
    """

    positive: float = Field(1.0, ge=0, description="factor on the advantage of successes")
    negative: float = Field(1.0, ge=0, description="factor on the advantage of failures")

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        weights_G = np.where(members.success_G, self.positive, self.negative)
        return [a * weight for a, weight in zip(advantages_GT, weights_G, strict=True)]
