"""An entropy bonus in the advantage: tokens sampled at high entropy are reinforced more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import entropies_of
from outrider.needs import Needs


class EntropyAdvantage(Shaper):
    r"""Adds an entropy bonus to each token's advantage. The bonus is clipped so that no advantage changes its sign.

    .. math:: \tilde A_{i,t} = A_{i,t} + \psi_{i,t}, \qquad
              \psi_{i,t} = \min\Big(\alpha H_{i,t}, \frac{|A_{i,t}|}{\kappa}\Big)

    Here :math:`H` is the entropy (nats) of the distribution from which the token was sampled. At uncertain tokens,
    failures are discouraged less and successes reinforced more. :math:`\kappa > 1` keeps the sign. Advantages are
    constants in the loss, so no gradient flows through the entropy. Unlike an entropy bonus in the objective
    (``objective.entropy``), this bonus does not directly make the policy more random, and it vanishes as the policy
    becomes certain.

    Degenerate cases: an advantage of 0 stays 0, so groups without a gradient and rollouts without a verdict do not
    change.

    Source: Cheng et al. 2025, arXiv 2506.14758, Eqs. 5 and 6; :math:`\alpha` = 0.4 with GRPO (0.1 with PPO) and
    :math:`\kappa` = 2 from section 4. Deviation: the entropy is recorded at sampling, while the paper uses the entropy
    of the policy being updated. Both entropies are equal in the first update of a step.

    >>> m = Members(
    ...     np.array([1.0, 0]), np.array([True, False]), np.array([2, 1]),
    ...     entropies_GT=[np.array([0.5, 2.0]), np.array([1.0])],
    ... )
    >>> [a.round(3).tolist() for a in EntropyAdvantage().shape([np.array([1.0, 1.0]), np.array([-1.0])], m, 1)]
    [[1.2, 1.5], [-0.6]]
    """

    requires: ClassVar[Needs] = frozenset({"entropies"})

    weight: float = Field(0.4, ge=0, description="bonus added to a token's advantage per nat of the token's entropy")
    kappa: float = Field(
        2.0,
        gt=1,
        description=(
            "divisor that limits the bonus: the bonus is at most the token's absolute advantage divided by kappa"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        entropies_GT = entropies_of(members, "entropy_advantage")
        return [
            a + np.minimum(self.weight * h, np.abs(a) / self.kappa)
            for a, h in zip(advantages_GT, entropies_GT, strict=True)
        ]
