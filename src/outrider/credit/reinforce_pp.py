"""The baseline of REINFORCE++: rewards are compared with those of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import BatchBaseline
from outrider.credit.group_mean import GroupMean
from outrider.credit.members import Members


class ReinforcePP(BatchBaseline):
    r"""The z-score of a reward in the whole batch; with ``group_mean``, of its distance to the mean of its group.

    .. math:: A_i = \frac{x_i - m}{s + \epsilon}, \qquad
              m = \frac{\sum_j w_j x_j}{\sum_j w_j}, \quad s^2 = \frac{\sum_j w_j (x_j - m)^2}{\sum_j w_j - 1}

    with :math:`x_i = r_i` (REINFORCE++, Eq. 5) or :math:`r_i - \mu_\mathrm{group}` (REINFORCE++ w/ Baseline, Eqs. 6 and
    7), over the valid members of all groups that a step has in one loss stream. ``weight`` says what is counted: each
    response once, :math:`w_i = 1`, or each token once, :math:`w_i` the tokens to train.

    Decided: responses, and with ``group_mean``. The paper takes its statistics over the tokens of a batch, its appendix
    B.2 over its N samples; verl's and OpenRLHF's code counts tokens. By tokens a group whose rewards are all equal gets
    :math:`-m/s` under ``group_mean``, since long responses move the mean off 0: a gradient from lengths alone. By
    responses that mean is 0, and is taken as exactly 0, so no group without a difference has an advantage and no sign
    is changed. What the loss makes of lengths is left to its own denominator.

    Degenerate cases: fewer than two valid members in the batch, or all :math:`x_i` exactly equal: all exactly 0. With
    ``group_mean`` a lone member of its group has :math:`x_i = 0`, as everywhere here; verl gives it its raw reward.
    Without, a group of one, and one of equal rewards, is compared with the other groups: what those sampled enters its
    advantage, and hard problems are below average as such. A member that is not valid gets 0 and changes no other.
    A group that comes alone is the whole batch.

    Not here: the paper's KL to the reference model inside the reward (without ``group_mean``) is the objective's.

    Source: REINFORCE++, Hu et al. 2025, arXiv 2501.03262v9, section 3. Epsilon is verl's, who add it to the variance.

    >>> solved, mixed = (Members(np.array(r), np.array(r) > 0, np.array([3, 1])) for r in ([1.0, 1.0], [1.0, 0.0]))
    >>> [a.round(3).tolist() for a in ReinforcePP().of_batch([solved, mixed])]
    [[0.0, 0.0], [1.225, -1.225]]
    >>> [a.round(3).tolist() for a in ReinforcePP(group_mean=False).of_batch([solved, mixed])]
    [[0.5, 0.5], [0.5, -1.5]]
    """

    group_mean: bool = Field(True, description="subtraction of the group mean first (REINFORCE++ w/ Baseline)")
    weight: Literal["sequence", "token"] = Field(
        "sequence", description="mean and deviation over responses, or over tokens as in the released code"
    )
    epsilon: float = Field(1e-8, ge=0, description="constant added to the standard deviation of the batch")

    def of_batch(self, groups: Sequence[Members]) -> list[Floats]:
        inside = GroupMean(std=False)
        values = [inside.advantages(m) if self.group_mean else m.rewards_G for m in groups]
        result = [np.zeros(m.size) for m in groups]
        pairs = list(zip(groups, values, strict=True))
        x = np.concatenate([np.zeros(0), *(value_G[m.valid_G] for m, value_G in pairs)])
        lengths = np.concatenate([np.zeros(0), *(m.tokens_G[m.valid_G] for m in groups)])
        if len(x) < 2 or (x == x[0]).all():
            return result
        w = lengths if self.weight == "token" else np.ones(len(x))
        if not self.group_mean or self.weight == "token":
            x = x - np.average(x, weights=w)
            x -= np.average(x, weights=w)  # second pass: removes the rounding of the mean
        x = x / (np.sqrt((w * x**2).sum() / (w.sum() - 1)) + self.epsilon)
        ends = np.cumsum([int(m.valid_G.sum()) for m in groups])[:-1]
        for result_G, m, part in zip(result, groups, np.split(x, ends), strict=True):
            result_G[m.valid_G] = part
        return result
