"""A position bonus: late tokens of a response get larger advantages, during a window of training steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members


class Position(Shaper):
    r"""Increases the magnitude of every advantage, and increases it more for later tokens.

    .. math:: \tilde A_{i,t} = A_{i,t} + \mathrm{sign}(A_{i,t})\, b_{i,t}, \qquad
              b_{i,t} = \gamma\, \sigma\big(m (l_{i,t} - n)\big), \qquad l_{i,t} = \frac{t-1}{L_i} \in [0, 1)

    :math:`L_i` counts the trainable tokens of the response, including the prefix that a branch copies from its parent.
    Negative slopes :math:`m` favour early tokens (the report's direction d = -1). The bonus does not depend on the size
    of the advantage, so the bonus is relatively larger for small advantages; ``cap`` limits the bonus to a share of
    :math:`|A|`. No advantage changes its sign.

    Advantages change only in the training steps from ``first_step`` to ``first_step + steps - 1``.

    Degenerate cases: an advantage of 0 stays 0, so groups without a gradient and rollouts without a verdict do not
    change. The token of a one-token response has position 0.

    Source: STILL report, arXiv 2508.07534, equations 8 and 12, with the defaults of section 4.4.2. Our choice: we
    subtract n = 0.5 from :math:`l`. The report subtracts n = -0.5, which would give almost every token the full bonus
    :math:`\gamma`; the released code subtracts 0.5. The released code's cap of half of :math:`|A|` is not in the
    report, so ``cap`` is off by default.

    >>> m = Members(np.array([1.0, 0]), np.array([True, False]), np.array([4, 1]))
    >>> [a.round(3).tolist() for a in Position().shape([np.full(4, 0.5), np.array([-0.5])], m, 1)]
    [[0.5, 0.502, 0.55, 0.598], [-0.5]]
    """

    weight: float = Field(0.1, ge=0, description="maximum bonus added to a token's absolute advantage")
    slope: float = Field(
        15.0,
        ge=-1000,
        le=1000,
        description=(
            "steepness of the bonus as a function of the token's position in the response; positive: larger bonus for "
            "later tokens; negative: larger bonus for earlier tokens"
        ),
    )
    midpoint: float = Field(
        0.5,
        ge=0,
        le=1,
        description="relative position in the response (0: start, 1: end) at which the bonus is half its maximum",
    )
    cap: float | None = Field(
        None,
        gt=0,
        description=(
            "maximum bonus for a token, as a fraction of the token's absolute advantage; null: no limit relative to "
            "the advantage"
        ),
    )
    first_step: int = Field(1, ge=1, description="first training step in which advantages get the bonus")
    steps: int | None = Field(
        None,
        ge=1,
        description="number of training steps in which advantages get the bonus; null: all steps from first_step on",
    )

    @property
    def needs_step(self) -> bool:
        return self.first_step > 1 or self.steps is not None

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        if step < self.first_step or (self.steps is not None and step >= self.first_step + self.steps):
            return [a.copy() for a in advantages_GT]
        return [
            a + np.sign(a) * self._bonus(a, start)
            for a, start in zip(advantages_GT, members.starts_G.tolist(), strict=True)
        ]

    def _bonus(self, advantages_T: Floats, start: int) -> Floats:
        length = start + len(advantages_T)
        positions_T = np.arange(start, length) / max(length, 1)
        sigmoid_T = (1.0 + np.tanh(self.slope * (positions_T - self.midpoint) / 2)) / 2  # never overflows
        bonus_T = self.weight * sigmoid_T
        return bonus_T if self.cap is None else np.minimum(bonus_T, self.cap * np.abs(advantages_T))
