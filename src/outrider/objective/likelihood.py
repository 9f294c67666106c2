"""The log-likelihood: supervised fine-tuning on the policy's own samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Surrogate

if TYPE_CHECKING:
    from torch import Tensor


class Likelihood(Surrogate):
    r"""The log-probability of each token, weighted by its advantage: :math:`g_t = A_t \log \pi(y_t)`.

    The loss contains no importance ratio and no old policy, so the update has the same form however far the policy is
    from the sampling policy. If all advantages are 1 (baseline ``imitation``), training is supervised fine-tuning. With
    negative advantages, the loss is unbounded below.
    """

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        # masked before the product, since NaN times 0 is NaN
        return tokens.advantages * torch.where(tokens.live, tokens.logprobs, 0.0), {}
