r"""The importance ratio of a token, or of the response that it belongs to.

With :math:`\rho_t = \pi(y_t) / \pi_\mathrm{old}(y_t)`, over the row's own tokens (the tokens after its context) that
are trainable:

* ``token``: :math:`\rho_t`;
* ``sequence``: :math:`s = (\prod_t \rho_t)^{1/n}`, shared by a row; its gradient flows through all tokens;
* ``sequence_token``: the value of :math:`s`, the gradient of :math:`\rho_t`: :math:`\mathrm{sg}[s]\,\pi(y_t) /
  \mathrm{sg}[\pi(y_t)]`. If all tokens of a row have the same advantage, ``sequence_token`` gives the same loss and
  gradient as ``sequence``.

A branch continues a prefix of another rollout. In the branch's row, this prefix is part of the context, so its tokens
have no ratio. With ``objective.prefix: repeat``, they are own tokens of the row, and have ratios.

On-policy, all ratios are 1, and every kind of ratio gives the policy gradient. The gradient is unbiased if the loss's
denominator is constant and each rollout's baseline depends only on other rollouts. Off-policy, every kind is biased:
``token`` ignores the ratios of the other tokens. ``sequence`` and ``sequence_token`` use a geometric mean, which is not
a ratio of probabilities. The product of ratios over a response is unbiased; to use the product, set
``objective.correction`` with ``level: sequence`` and no truncation.

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
    """The input of a surrogate. Tensors have one value for each of the ``N`` tokens in a micro-batch (the ``token_ids``
    of its rows, concatenated).

    Attributes:
        log_ratio: bounded log of the ratio; 0 for tokens that are not trained on.
        logprobs: log-probabilities of the trained policy.
        advantages: advantage of each token; 0 for tokens without gradient.
        live: bool, whether a token is trainable.
        lengths: number of ``token_ids`` in each row, trainable or not.
        entropies: entropy of the policy at each token. None if the engine computes no entropies. Never None if the
            surrogate reads ``top``, that is, if ``Surrogate.reads_top`` is at least 1.
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
        """Return the ratio ``[N]`` at the given level."""
        if level == "token":
            return self.log_ratio.exp()
        if level == "sequence":
            return self.row_mean(self.log_ratio).exp()
        # own - own.detach() is 0 in value and carries the token's gradient
        own = self.log_ratio
        return (own - own.detach() + self.row_mean(own.detach())).exp()

    def row_mean(self, values_N: Tensor) -> Tensor:
        """Return, for each token, the mean over the trainable tokens of its row: ``[N]``. The mean is 0 in a row
        without trainable tokens. ``values_N`` must be 0 for tokens that are not trained on."""
        import torch

        lengths = torch.tensor(self.lengths, dtype=torch.long, device=values_N.device)
        rows = torch.arange(len(lengths), device=values_N.device)
        row_N = torch.repeat_interleave(rows, lengths, output_size=len(values_N))
        none = values_N.new_zeros(len(lengths))
        sums = none.index_add(0, row_N, values_N)
        counts = none.index_add(0, row_N, self.live.to(values_N.dtype))
        # index_add and index_select instead of a Python loop over ragged rows, which would stall the device
        return (sums / counts.clamp_min(1)).index_select(0, row_N)
