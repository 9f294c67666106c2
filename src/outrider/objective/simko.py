"""SimKO: at high-entropy positions, a success also reinforces the most probable tokens, and a failure is penalised more
if the sampled token was the most probable one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Bounded

if TYPE_CHECKING:
    from torch import Tensor

_LEAST = -1e3  # a token that cannot be sampled has log-probability -inf, and -inf - -inf is NaN


class Simko(Bounded):
    r"""PPO's clipped objective, with other gradients at forking tokens. ``simko: [0.2, 0.2]`` sets ``low`` and
    ``high``.

    A token is forking if its entropy is above the quantile :math:`\tau` of its response's trainable tokens. At forking
    tokens, with the K likeliest tokens :math:`v_k` of the current policy and the stop-gradient sg,

    .. math:: \tilde\rho_t = (1 - \alpha)\, \rho_t + \frac{\alpha}{K} \sum_k \mathrm{sg}\Big[\frac{\rho_t}
              {\rho_{t,k}}\Big] \rho_{t,k} \;\text{ if } A_t > 0, \qquad
              \tilde A_t = \lambda A_t \;\text{ if } A_t < 0 \text{ and } y_t = v_1

    replace :math:`\rho_t` and :math:`A_t`. :math:`\tilde\rho_t` has the value of :math:`\rho_t`, but a share
    :math:`\alpha` of its gradient goes to the likeliest tokens, which may include the sampled one. Neither value nor
    gradient of :math:`\mathrm{sg}[1 / \rho_{t,k}]\, \rho_{t,k}` depends on the sampling policy, so the sampling
    policy's likeliest tokens need not be stored.

    Success is inferred from the sign of the advantage. This is right if the baseline is ``group_mean`` and rewards are
    0 or 1. All tokens tied for the highest probability count as the likeliest. A response has no forking token if it
    has only one token, or if all its tokens have the same entropy. If the vocabulary has fewer than K (``top``) tokens,
    all tokens are used.

    Diagnostics: ``clip_low`` and ``clip_high`` are the fractions of tokens whose gradient is removed by the lower and
    the upper bound. ``forking`` is the fraction of forking tokens.

    Source: arXiv 2510.14807 and its released code (compute_policy_loss_simko), which defines two details: entropies are
    computed with the trained policy, and the quantile interpolates linearly.
    """

    low: float = Field(
        0.2,
        ge=0,
        le=1,
        strict=True,
        description=(
            "size of the clip range below a ratio of 1: importance ratios are clipped at 1 - low; with low: 1, there "
            "is no lower bound"
        ),
    )
    high: float = Field(
        0.2, ge=0, strict=True, description="clip range above 1: importance ratios are clipped at 1 + high"
    )
    quantile: float = Field(
        0.8,
        ge=0,
        lt=1,
        description=(
            "quantile of the token entropies in a response; tokens with entropy above this quantile are forking "
            "tokens, whose gradients SimKO changes"
        ),
    )
    top: int = Field(
        3,
        ge=1,
        description=(
            "number of most probable tokens that receive part of the gradient of a forking token with a positive "
            "advantage"
        ),
    )
    share: float = Field(
        0.01,
        ge=0,
        le=1,
        description=(
            "fraction of the gradient of a forking token with a positive advantage that goes to the most probable "
            "tokens"
        ),
    )
    penalty: float = Field(
        1.1,
        ge=1,
        description=(
            "factor by which the negative advantage of a forking token is multiplied if the most probable token was "
            "sampled there; 1: no change"
        ),
    )

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return "clip_low", "clip_high", "forking"

    @property
    def reads_top(self) -> int:
        return self.top

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        assert tokens.entropies is not None
        assert tokens.top is not None
        entropies = tokens.entropies.detach()
        forking = tokens.live & (entropies > row_quantiles(entropies, tokens.live, tokens.lengths, self.quantile))
        spread = forking & (tokens.advantages > 0)
        # `moved` has value 0; it moves gradient from the token itself to the likeliest tokens
        likeliest = torch.where(spread[:, None], tokens.top.clamp_min(_LEAST), 0.0).mean(1)
        own = tokens.log_ratio
        moved = (likeliest - likeliest.detach()) - (own - own.detach())
        ratio = (own + torch.where(spread, self.share * moved, 0.0)).exp()
        first = tokens.logprobs.detach() >= tokens.top[:, 0].detach()
        advantages = tokens.advantages
        advantages = torch.where(forking & first & (advantages < 0), self.penalty * advantages, advantages)
        low, high = 1 - self.low, 1 + self.high
        gain = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
        marks = {
            "clip_low": (ratio < low) & (advantages < 0),
            "clip_high": (ratio > high) & (advantages > 0),
            "forking": forking,
        }
        return gain, marks


def row_quantiles(values_N: Tensor, live_N: Tensor, lengths: Sequence[int], q: float) -> Tensor:
    """Return, for each of the N tokens, the quantile ``q`` over the trainable tokens (``live_N``) of its row. The
    quantile is interpolated linearly, and is NaN if the row has no trainable token.

    >>> import torch
    >>> values, live = torch.tensor([1.0, 3.0, 2.0, 5.0]), torch.tensor([True, True, True, False])
    >>> row_quantiles(values, live, [3, 1], 0.25).tolist()
    [1.5, 1.5, 1.5, nan]
    """
    import torch

    if not len(values_N):
        return values_N
    rows = list(values_N.split(list(lengths)))
    kept = [torch.where(live, row, torch.nan) for row, live in zip(rows, live_N.split(list(lengths)), strict=True)]
    padded_BL = torch.nn.utils.rnn.pad_sequence(kept, batch_first=True, padding_value=torch.nan)
    quantiles_B = padded_BL.nanquantile(q, dim=1)
    repeats = torch.tensor(list(lengths), device=values_N.device)
    return quantiles_B.repeat_interleave(repeats, output_size=len(values_N))
