r"""CISPO: no token loses its gradient, its importance weight is bounded instead.

.. math:: g_t = \mathrm{sg}\big[\mathrm{clip}(\rho_t, 1 - \epsilon_l, 1 + \epsilon_h)\big]\, A_t \log \pi(y_t)

so the gradient is that of the policy gradient, with a bounded weight. The value is no expected gain, only its
gradient means something. The paper leaves the lower bound out and gives no number for the upper one; 1 + 4 is the
cap of 5 of ScaleRL.

Sources: MiniMax-M1, arXiv 2506.13585, Eqs. 4 and 5; ScaleRL, arXiv 2510.13786.
"""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.objective.options import Cispo
from outrider.objective.ratio import Marks, Policy


def cispo(options: Cispo, policy: Policy) -> tuple[Tensor, Marks]:
    """Gain per token; marks where the weight is bounded, whatever the advantage: ``clip_low``, ``clip_high``."""
    ratio = policy.log_ratio.detach().exp()
    low, high = 0.0 if options.low is None else 1 - options.low, 1 + options.high
    logprobs = torch.where(policy.live, policy.logprobs, 0.0)
    return ratio.clamp(low, high) * policy.advantages * logprobs, {"clip_low": ratio < low, "clip_high": ratio > high}
