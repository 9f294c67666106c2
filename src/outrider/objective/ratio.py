r"""The importance ratio of a token, or of the response that it belongs to.

With :math:`\rho_t = \pi(y_t) / \pi_\mathrm{old}(y_t)`, over the own trainable tokens of a row:

* ``token``: :math:`\rho_t`;
* ``sequence``: :math:`s = (\prod_t \rho_t)^{1/n}`, the same for all tokens of a row. Its gradient goes through all;
* ``sequence_token``: the value of :math:`s`, the gradient of :math:`\rho_t`: :math:`\mathrm{sg}[s]\,\pi(y_t) /
  \mathrm{sg}[\pi(y_t)]`. With one advantage for a whole row, both have the same value and the same gradient.

For a branch, the response consists of the tokens of its row: those it sampled itself, or its whole path under the
prefix policy ``repeat``.

On-policy all ratios are 1 and give the policy gradient, so with a constant denominator and a baseline from the other
rollouts' rewards the expectation is the true gradient. Off-policy none is exact: a token's ratio ignores those of the
other tokens, and a geometric mean is not a ratio of probabilities. The product over a response is exact; ``correction``
offers it (level ``sequence``, without truncation).

Source: GSPO, arXiv 2507.18071, sections 4.1 and 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

RatioLevel = Literal["token", "sequence", "sequence_token"]
Marks = dict[str, "Tensor"]


class TokenRatios(NamedTuple):
    """The input of a surrogate: every tensor is ``[N]``, the own tokens of a micro-batch's rows, concatenated.

    Attributes:
        log_ratio: log of the ratio, bounded; 0 where not trained.
        logprobs: log-probabilities of the trained policy.
        advantages: 0 where a token has no gradient.
        live: bool, the trainable tokens.
        lengths: own tokens of each row.
        entropies: entropies of the distributions, for surrogates that read the likeliest tokens.
        top: log-probabilities of the likeliest tokens at each position, ``[N, K]``, in descending order.
    """

    log_ratio: Tensor
    logprobs: Tensor
    advantages: Tensor
    live: Tensor
    lengths: Sequence[int]
    entropies: Tensor | None = None
    top: Tensor | None = None

    def ratio(self, level: RatioLevel) -> Tensor:
        """The ratio ``[N]`` at the given level."""
        if level == "token":
            return self.log_ratio.exp()
        if level == "sequence":
            return self.row_mean(self.log_ratio).exp()
        # own - own.detach() is 0 in value and carries the token's gradient
        own = self.log_ratio
        return (own - own.detach() + self.row_mean(own.detach())).exp()

    def row_mean(self, values_N: Tensor) -> Tensor:
        """``[N]``: the mean over the trainable tokens of each token's row, from values that are 0 where not trained;
        0 in a row without any trainable token."""
        import torch

        lengths = torch.tensor(self.lengths, dtype=torch.long, device=values_N.device)
        rows = torch.arange(len(lengths), device=values_N.device)
        row_N = torch.repeat_interleave(rows, lengths, output_size=len(values_N))
        none = values_N.new_zeros(len(lengths))
        sums = none.index_add(0, row_N, values_N)
        counts = none.index_add(0, row_N, self.live.to(values_N.dtype))
        # index_add and index_select instead of a Python loop over ragged rows, which would stall the device
        return (sums / counts.clamp_min(1)).index_select(0, row_N)
