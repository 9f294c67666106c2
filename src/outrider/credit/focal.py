"""F-GRPO's focal weight: groups with a high success rate get less weight."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members


class Focal(Shaper):
    r"""Scales a group's advantages by a power of the group's failure rate.

    .. math:: \tilde A_{i,t} = (1 - \hat p)^\gamma A_{i,t}, \qquad \hat p = \frac{c}{n}

    :math:`\hat p` is the group's success rate: c successes among the n members that the verifier could score. In a
    group with a high success rate, most sampled successes are responses to which the policy already gives a high
    probability. Training on them takes probability from rare correct responses that were not sampled, so groups with a
    high success rate get less weight. The factor is the same for the whole group, so no advantage changes its sign, and
    a mean advantage of 0 stays 0.

    Degenerate cases: the factor is 1 in a group without a success, and 0 in a group of successes only (always 1 with
    :math:`\gamma = 0`). Invalid members (rollouts that the verifier could not score) are ignored. Focal weights make
    updates smaller, so tune the learning rate before you compare recipes.

    Source: F-GRPO, arXiv 2602.06717v2 (only its abstract and third-party notes were available), and the released code
    of UCPO (arXiv 2605.00365), which implements F-GRPO as a baseline. In most of UCPO's experiments, 0.5 is the best
    gamma among 0.5, 1 and 2.

    >>> import numpy as np
    >>> m = Members(np.array([1.0, 1, 1, 0]), np.array([True, True, True, False]), np.ones(4, np.int64))
    >>> [a.tolist() for a in Focal().shape([np.full(1, 0.25)] * 3 + [np.full(1, -0.75)], m, 1)]
    [[0.125], [0.125], [0.125], [-0.375]]
    """

    gamma: float = Field(
        0.5,
        ge=0,
        description=(
            "exponent gamma; the advantages of a group with success rate p are multiplied by (1 - p)^gamma; 0: no "
            "scaling"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        successes = members.success_G[members.valid_G]
        rate = float(successes.mean()) if len(successes) else 0.0  # no valid member: every advantage is 0
        return [a * (1.0 - rate) ** self.gamma for a in advantages_GT]
