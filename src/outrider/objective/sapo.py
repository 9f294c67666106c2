r"""SAPO: a smooth gate in place of a clip.

.. math:: g_t = \frac{4}{\tau}\, \sigma\big(\tau (\rho_t - 1)\big)\, A_t, \qquad \tau = \tau_+ \text{ if } A_t > 0,
          \text{ else } \tau_-

At :math:`\rho_t = 1` the gradient is that of :math:`\rho_t A_t`; away from 1, on both sides and for both signs, it
fades as :math:`4 \sigma (1 - \sigma)`, faster for a larger :math:`\tau`. The value has an offset of
:math:`2 A_t / \tau` that means nothing.

Source: arXiv 2511.20347 (its temperatures are 1 and 1.05).
"""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.objective.options import Sapo
from outrider.objective.ratio import Marks, Policy


def sapo(options: Sapo, policy: Policy) -> tuple[Tensor, Marks]:
    """Gain per token; marks ``gate``, the share of the gradient that passes: 1 on-policy."""
    tau = torch.where(policy.advantages > 0, options.tau_positive, options.tau_negative)
    gate = (tau * (policy.log_ratio.exp() - 1)).sigmoid()
    return 4 / tau * gate * policy.advantages, {"gate": 4 * gate * (1 - gate)}
