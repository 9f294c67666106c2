"""The surrogate without clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from outrider.objective.ratio import Marks, RatioLevel, TokenRatios
from outrider.objective.surrogate import Surrogate

if TYPE_CHECKING:
    from torch import Tensor


class Unclipped(Surrogate):
    r"""The ratio without clipping: the policy gradient of importance-weighted samples, :math:`g_t = \rho_t A_t`."""

    ratio: RatioLevel = Field(
        "token",
        description=(
            "level of the importance ratio: per token (token), per response as in GSPO (sequence), or per response "
            "with a gradient per token as in GSPO-token (sequence_token)"
        ),
    )

    @property
    def per_response(self) -> bool:
        return self.ratio == "sequence"

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        return tokens.ratio(self.ratio) * tokens.advantages, {}
