"""SAPO: a smooth gate on the importance ratio, in place of PPO's clip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from outrider.objective.ratio import Marks, TokenRatios
from outrider.objective.surrogate import Surrogate

if TYPE_CHECKING:
    from torch import Tensor


class Sapo(Surrogate):
    r"""A sigmoid gate on the importance ratio, in place of PPO's clip.

    .. math:: g_t = \frac{4}{\tau}\, \sigma\big(\tau (\rho_t - 1)\big)\, A_t, \qquad
              \tau = \tau_+ \text{ if } A_t > 0, \text{ else } \tau_-

    At :math:`\rho_t = 1` the gradient equals the gradient of :math:`\rho_t A_t`. Away from 1, on both sides and for
    both signs of the advantage, the gradient decays as :math:`4 \sigma (1 - \sigma)`, faster for a larger :math:`\tau`.
    The value includes an offset of :math:`2 A_t / \tau`, which does not affect the gradient.

    Diagnostics: ``gate`` is the factor :math:`4 \sigma (1 - \sigma)` by which the gate scales the gradient (1 if
    on-policy).

    Source: arXiv 2511.20347, with temperatures of 1 for positive and 1.05 for negative advantages.
    """

    tau_positive: float = Field(
        1.0,
        gt=0,
        description=(
            "steepness of the sigmoid gate where the advantage is positive; with larger values, the gradient falls "
            "faster as the ratio moves away from 1"
        ),
    )
    tau_negative: float = Field(
        1.05,
        gt=0,
        description=(
            "steepness of the sigmoid gate where the advantage is negative; with larger values, the gradient falls "
            "faster as the ratio moves away from 1"
        ),
    )

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return ("gate",)

    def gain(self, tokens: TokenRatios) -> tuple[Tensor, Marks]:
        import torch

        tau = torch.where(tokens.advantages > 0, self.tau_positive, self.tau_negative)
        gate = (tau * (tokens.log_ratio.exp() - 1)).sigmoid()
        # d sigmoid(tau (r - 1)) / dr is tau / 4 at r = 1; the factor makes the slope 1 for every tau
        return 4 / tau * gate * tokens.advantages, {"gate": 4 * gate * (1 - gate)}
