"""PPO's clipped surrogate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from outrider.objective.ratio import Marks, RatioLevel, TokenRatios
from outrider.objective.surrogate import Bounded

if TYPE_CHECKING:
    from torch import Tensor


class Clip(Bounded):
    r"""PPO's clipped ratio; short form ``clip: [0.2, 0.28]``.

    .. math:: g_t = \min\big(\rho_t A_t,\; \mathrm{clip}(\rho_t, 1 - \epsilon_l, 1 + \epsilon_h)\, A_t\big), \qquad
              g^\mathrm{dual}_t = \max(g_t,\; c\, A_t) \text{ if } A_t < 0

    A token outside the bounds has no gradient if the update would move its ratio further out. This holds for a positive
    advantage with a ratio above the upper bound, and for a negative advantage with a ratio below the lower bound. With
    the dual clip (``dual``, :math:`c`), tokens with a negative advantage and a ratio above :math:`c` have no gradient
    either.

    Diagnostics: ``clip_low``, ``clip_high`` and ``clip_dual`` are the fractions of tokens whose gradient is removed by
    the lower bound, the upper bound and the dual clip, respectively.

    Sources: PPO, arXiv 1707.06347, equation (7); a higher upper bound (DAPO), arXiv 2503.14476; dual clip, arXiv
    1912.09729; sequence-level ratio (GSPO), arXiv 2507.18071.
    """

    low: float = Field(
        0.2,
        ge=0,
        le=1,
        strict=True,
        description=(
            "size of the clip range below a ratio of 1: importance ratios are clipped at 1 - low; 1: no lower bound"
        ),
    )
    high: float = Field(
        0.2,
        ge=0,
        strict=True,
        description="size of the clip range above a ratio of 1: importance ratios are clipped at 1 + high",
    )
    dual: float | None = Field(
        None,
        gt=1,
        description=(
            "upper bound of the importance ratio for tokens with a negative advantage (c in dual-clip PPO); null: no "
            "such bound"
        ),
    )
    ratio: RatioLevel = Field(
        "token",
        description=(
            "level of the importance ratio: per token (token), per response as in GSPO (sequence), or per response "
            "with a gradient per token as in GSPO-token (sequence_token)"
        ),
    )

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return ("clip_low", "clip_high") if self.dual is None else ("clip_low", "clip_high", "clip_dual")

    @property
    def per_response(self) -> bool:
        return self.ratio == "sequence"

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        ratio, advantages = tokens.ratio(self.ratio), tokens.advantages
        low, high = 1 - self.low, 1 + self.high
        gain = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
        marks = {"clip_low": (ratio < low) & (advantages < 0), "clip_high": (ratio > high) & (advantages > 0)}
        if self.dual is not None:
            # with a negative advantage the minimum has no upper bound on the ratio
            gain = torch.where(advantages < 0, torch.maximum(gain, self.dual * advantages), gain)
            marks["clip_dual"] = (ratio > self.dual) & (advantages < 0)
        return gain, marks
