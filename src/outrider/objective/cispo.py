"""CISPO: every token keeps its gradient, weighted by a clipped importance ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Bounded

if TYPE_CHECKING:
    from torch import Tensor


class Cispo(Bounded):
    r"""Keeps the gradient of every token, weighted by a clipped importance ratio; short form ``cispo: [null, 4.0]``.

    .. math:: g_t = \mathrm{sg}\big[\mathrm{clip}(\rho_t, 1 - \epsilon_l, 1 + \epsilon_h)\big]\, A_t \log \pi(y_t)

    The gradient of :math:`g_t` is the policy gradient times a bounded weight. The value of :math:`g_t` does not
    estimate the policy's improvement. MiniMax-M1 uses no lower bound, and gives no number for the upper bound. The
    default ``high`` of 4 gives ScaleRL's cap of 5 (1 + 4).

    Diagnostics: ``clip_low`` and ``clip_high`` are the fractions of tokens whose weight is clipped at the lower and at
    the upper bound, regardless of the sign of their advantage.

    Sources: MiniMax-M1, arXiv 2506.13585, equations (4) and (5); ScaleRL, arXiv 2510.13786.
    """

    low: float | None = Field(
        None,
        ge=0,
        le=1,
        strict=True,
        description="clip range below 1: the importance weight of a token is at least 1 - low; null: no lower bound",
    )
    high: float = Field(
        4.0, ge=0, strict=True, description="clip range above 1: the importance weight of a token is at most 1 + high"
    )

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return "clip_low", "clip_high"

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        # detached, so that no gradient flows through the weight
        ratio = tokens.log_ratio.detach().exp()
        low, high = 0.0 if self.low is None else 1 - self.low, 1 + self.high
        # masked before the product, since NaN times 0 is NaN
        logprobs = torch.where(tokens.live, tokens.logprobs, 0.0)
        marks = {"clip_low": ratio < low, "clip_high": ratio > high}
        return ratio.clamp(low, high) * tokens.advantages * logprobs, marks
