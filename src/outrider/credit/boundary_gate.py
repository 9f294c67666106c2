"""BBG (arXiv 2606.15455): trains only on problems where a higher pass rate would clearly raise pass@k."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members


class BoundaryGate(Shaper):
    r"""Weights each group by the slope of pass@k at the group's pass rate, and excludes groups with a small slope.

    .. math:: u(c) = \mathrm{E}\big[k (1 - p)^{k-1}\big] = k \prod_{j=1}^{k-1} \frac{n - c + j}{n + 1 + j},
              \qquad p \sim \mathrm{Beta}(c + 1, n - c + 1)

    is the expected slope of pass@k, :math:`1 - (1 - p)^k`, for a problem with ``c`` successes among ``n`` valid members
    (rollouts that the verifier could score) and a uniform prior on p. Advantages are multiplied by :math:`\min(u(c) /
    u(1), 1)`, or by 0 if :math:`u(c) < \tau (n + 1)`. For large k the slope is small for most groups with a success,
    since their pass@k is already close to 1. A group without a success is weighted like a group with one success. With
    most baselines, such a group has no gradient, since its rewards are equal. With ``no_baseline`` and a negative
    reward for failures, such a group has a gradient.

    Degenerate cases: if the verifier could score no member, every advantage is 0. With k = 1 all groups have the same
    weight. A group of one rollout is not a special case.

    Source: BBG, arXiv 2606.15455v1; only the paper's **abstract** was available. The paper's equations 8 and 9 and the
    weight :math:`\min(u(c) / u(1), 1)` come from third-party code, which cites the paper but states that it is not a
    reproduction.

    >>> [round(BoundaryGate(k=16).utility(c, 8), 3) for c in range(4)]
    [6.0, 2.087, 0.664, 0.19]
    """

    k: int = Field(
        16,
        ge=1,
        description="k of pass@k; a group's weight depends on the slope of pass@k at the group's pass rate",
    )
    threshold: float = Field(
        0.01,
        ge=0,
        description=(
            "minimum of (slope of pass@k) / (n + 1), where n is the number of rollouts in the group; groups with a "
            "smaller value get advantage 0"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        n, successes = int(members.valid_G.sum()), int((members.success_G & members.valid_G).sum())
        value = self.utility(successes, n) if n else 0.0
        weight = min(value / self.utility(1, n), 1.0) if n and value >= self.threshold * (n + 1) else 0.0
        return [a * weight for a in advantages_GT]

    def utility(self, successes: int, n: int) -> float:
        """Return u(c), the expected slope of pass@k as a function of the pass rate, after c = ``successes`` in ``n``
        rollouts."""
        return self.k * math.prod((n - successes + j) / (n + 1 + j) for j in range(1, self.k))
