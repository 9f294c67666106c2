"""GMPO: the geometric mean of a response's clipped ratios instead of the arithmetic mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Bounded

if TYPE_CHECKING:
    from torch import Tensor


class Gmpo(Bounded):
    r"""The geometric mean of a response's clipped ratios; short form ``gmpo: [0.4, 0.4]``.

    .. math:: g_t = A_t\, \exp\Big(\frac1n \sum_u c_u\Big), \qquad
              c_u = \begin{cases} \min(\log\rho_u,\, \epsilon_h) & A_u > 0 \\
                                  \max(\log\rho_u,\, -\epsilon_l) & A_u < 0 \\ 0 & A_u = 0 \end{cases}

    over the trainable tokens :math:`u` of the row. Log ratios are clipped per token and averaged per response. An
    outlier affects a mean of log ratios far less than a mean of ratios. The paper has one advantage per row; if the
    signs of advantages differ within a row, each token is clipped according to the sign of its own advantage. A clipped
    token has no gradient; the other tokens of its row keep their gradients.

    Diagnostics: ``clip_low`` and ``clip_high`` are the fractions of tokens clipped at the lower and at the upper bound.

    Source: arXiv 2507.20673, with the ratio range (e^-0.4, e^0.4).
    """

    low: float = Field(
        0.4,
        ge=0,
        strict=True,
        description=(
            "lower clip range of a token's log ratio: if the advantage is negative, the log ratio is at least -low"
        ),
    )
    high: float = Field(
        0.4,
        ge=0,
        strict=True,
        description=(
            "upper clip range of a token's log ratio: if the advantage is positive, the log ratio is at most high"
        ),
    )

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return "clip_low", "clip_high"

    @property
    def per_response(self) -> bool:
        return True

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        log_ratio, good, bad = tokens.log_ratio, tokens.advantages > 0, tokens.advantages < 0
        above, below = log_ratio.clamp(max=self.high), log_ratio.clamp(min=-self.low)
        clipped = torch.where(good, above, torch.where(bad, below, 0.0))
        marks = {"clip_low": (log_ratio < -self.low) & bad, "clip_high": (log_ratio > self.high) & good}
        return tokens.advantages * tokens.row_mean(clipped).exp(), marks
