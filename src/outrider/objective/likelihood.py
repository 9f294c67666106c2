"""The log-likelihood: supervised fine-tuning on what the policy sampled itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Surrogate

if TYPE_CHECKING:
    from torch import Tensor


class Likelihood(Surrogate):
    r"""The log-probability of each token, weighted by its advantage: :math:`g_t = A_t \log \pi(y_t)`.

    No ratio and no old policy: an update far from the policy that sampled follows the same gradient as the first one.
    With the baseline ``imitation`` this is supervised fine-tuning. Advantages below 0 have no lower bound here.
    """

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        # before the product, since NaN times 0 is NaN
        return tokens.advantages * torch.where(tokens.live, tokens.logprobs, 0.0), {}
