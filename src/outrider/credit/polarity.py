"""Verdict weighting: negative, positive and weighted sample reinforcement (NSR, PSR, W-REINFORCE)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members


class Polarity(Shaper):
    r"""Scales the advantages of successes and of failures by separate factors.

    .. math:: \tilde A_{i,t} = \lambda_+ A_{i,t} \text{ if member } i \text{ succeeds}, \quad
              \lambda_- A_{i,t} \text{ otherwise}

    ``positive: 0`` is NSR, which only discourages failures; ``negative: 0`` is PSR, which only reinforces successes;
    ``positive: 0.1`` is W-REINFORCE. The paper's estimators have no baseline (:class:`NoBaseline` with rewards of 1 and
    -1). The gradients of NSR and PSR then add up to the gradient of REINFORCE, and groups with only failures have a
    gradient. With a group baseline such groups have no gradient.

    Our choice: the factor depends on the verdict, not on the sign of the advantage. The paper splits the objective by
    verdict, and the sign of an advantage may disagree with the verdict. For example, the shaped reward of a long
    correct response may fall below the mean. If the factor depended on the sign, NSR would discourage this success,
    although NSR should ignore successes. With the baseline ``tree_values``, some tokens of a failed rollout may have
    positive advantages; these advantages are also multiplied by ``negative``.

    Degenerate cases: an advantage of 0 stays 0, so groups without a gradient and rollouts without a verdict do not
    change. With ``positive: 0`` a group with only successes has no gradient; with ``negative: 0`` a group with only
    failures has no gradient.

    Source: Zhu et al. 2025, arXiv 2506.01347.

    >>> m = Members(np.array([1.0, 0]), np.array([True, False]), np.array([2, 1]))
    >>> [a.tolist() for a in Polarity(positive=0.25).shape([np.array([1.0, 1.0]), np.array([-1.0])], m, 1)]
    [[0.25, 0.25], [-1.0]]
    """

    positive: float = Field(
        1.0, ge=0, description="factor by which the advantages of successes are multiplied; 0: learn only from failures"
    )
    negative: float = Field(
        1.0, ge=0, description="factor by which the advantages of failures are multiplied; 0: learn only from successes"
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        weights_G = np.where(members.success_G, self.positive, self.negative)
        return [a * weight for a, weight in zip(advantages_GT, weights_G, strict=True)]
