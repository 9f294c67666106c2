r"""PPO's clipped surrogate, and the one without a clip.

.. math:: g_t = \min\big(\rho_t A_t,\; \mathrm{clip}(\rho_t, 1 - \epsilon_l, 1 + \epsilon_h)\, A_t\big), \qquad
          g^\mathrm{dual}_t = \max(g_t,\; c\, A_t) \text{ where } A_t < 0

Clipped from above, a token that is good and already likelier, or bad and already less likely, has gradient zero; the
dual clip adds: one that is bad and has become very much likelier. An advantage of 0 gains 0.

Sources: PPO, arXiv 1707.06347, Eq. 7; clip-higher, DAPO, arXiv 2503.14476; dual clip, arXiv 1912.09729; at
sequence level GSPO, arXiv 2507.18071.
"""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.objective.options import Clip, Unclipped
from outrider.objective.ratio import Marks, Policy, ratio_of


def clip(options: Clip, policy: Policy) -> tuple[Tensor, Marks]:
    """Gain per token; marks where a clip takes the gradient: ``clip_low``, ``clip_high``, and ``clip_dual``."""
    ratio, advantages = ratio_of(policy, options.ratio), policy.advantages
    low, high = 1 - options.low, 1 + options.high
    gain = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
    marks = {"clip_low": (ratio < low) & (advantages < 0), "clip_high": (ratio > high) & (advantages > 0)}
    if options.dual is not None:
        gain = torch.where(advantages < 0, torch.maximum(gain, options.dual * advantages), gain)
        marks["clip_dual"] = (ratio > options.dual) & (advantages < 0)
    return gain, marks


def unclipped(options: Unclipped, policy: Policy) -> tuple[Tensor, Marks]:
    """Gain per token: :math:`\\rho_t A_t`."""
    return ratio_of(policy, options.ratio) * policy.advantages, {}
