r"""GMPO: the geometric mean of a response's token gains in place of the arithmetic one.

.. math:: g_t = A_t\, \exp\Big(\frac1n \sum_u c_u\Big), \qquad
          c_u = \begin{cases} \min(\log\rho_u,\, \epsilon_h) & A_u > 0 \\
                              \max(\log\rho_u,\, -\epsilon_l) & A_u < 0 \\ 0 & A_u = 0 \end{cases}

over the trainable tokens :math:`u` of the row: clipped per token, averaged per response. One outlying ratio moves the
mean of logarithms far less than a sum. Written for one advantage per row, as in the paper; where tokens of a row
differ in sign, each is clipped by its own. A token that is clipped passes no gradient, its siblings do.

Source: arXiv 2507.20673 (its range is (e^-0.4, e^0.4)).
"""

from __future__ import annotations

import torch
from torch import Tensor

from outrider.objective.options import Gmpo
from outrider.objective.ratio import Marks, Policy


def gmpo(options: Gmpo, policy: Policy) -> tuple[Tensor, Marks]:
    """Gain per token, the same for equal advantages of a row; marks the clipped tokens: ``clip_low``, ``clip_high``."""
    log_ratio, good, bad = policy.log_ratio, policy.advantages > 0, policy.advantages < 0
    above, below = log_ratio.clamp(max=options.high), log_ratio.clamp(min=-options.low)
    clipped = torch.where(good, above, torch.where(bad, below, 0.0))
    marks = {"clip_low": (log_ratio < -options.low) & bad, "clip_high": (log_ratio > options.high) & good}
    return policy.advantages * policy.row_mean(clipped).exp(), marks
