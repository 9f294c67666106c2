"""The baseline of REINFORCE++: rewards are normalised over the whole batch."""

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
    r"""The advantage is the z-score of the reward over the whole batch. With ``group_mean``, the mean reward of the
    group is subtracted from each reward before z-scores are computed.

    .. math:: A_i = \frac{x_i - m}{s + \epsilon}, \qquad
              m = \frac{\sum_j w_j x_j}{\sum_j w_j}, \quad s^2 = \frac{\sum_j w_j (x_j - m)^2}{\sum_j w_j - 1}

    Here :math:`x_i` is :math:`r_i` (REINFORCE++, Eq. 5) or :math:`r_i - \mu_\mathrm{group}` (REINFORCE++ w/ Baseline,
    Eqs. 6 and 7). The mean m and the standard deviation s are over the valid members of all groups in the step,
    separately for each loss stream (a separately weighted part of the loss). ``weight`` selects statistics over
    responses (:math:`w_i = 1`) or over tokens (:math:`w_i` is the number of trainable tokens).

    Our choice: statistics are over responses, and ``group_mean`` is on. The paper computes statistics over the tokens
    of a batch, but appendix B.2 computes them over the N samples; the code of verl and OpenRLHF uses tokens. With
    statistics over tokens and ``group_mean``, a group of equal rewards gets :math:`-m/s`, since long responses shift
    the mean away from 0. A group of equal rewards is then discouraged if responses with above-average rewards tend to
    be long, and reinforced if such responses tend to be short. With statistics over responses and ``group_mean`` the
    batch mean is 0 by construction and is not subtracted. Groups of equal rewards therefore have advantages of 0, and
    every advantage is positive exactly if the reward is above the group mean. Length normalisation is left to the
    denominator of the loss.

    Degenerate cases: if the batch has fewer than two valid members, or all :math:`x_i` are exactly equal, all members
    get exactly 0. With ``group_mean`` the only member of a group of one has :math:`x_i = 0`; verl uses the member's raw
    reward. Without ``group_mean``, groups of one and groups of equal rewards are compared with the other groups, so
    responses to hard problems tend to get negative advantages. An invalid member (a rollout that the verifier could not
    score) gets 0 and does not affect the other members. A single group is treated as the whole batch.

    The paper's REINFORCE++ (without ``group_mean``) subtracts a KL penalty against the reference model from the reward.
    This baseline does not; use the objective's KL term instead.

    Source: REINFORCE++, Hu et al. 2025, arXiv 2501.03262v9, section 3. The default epsilon is verl's, but verl adds
    epsilon to the variance.

    >>> solved, mixed = (Members(np.array(r), np.array(r) > 0, np.array([3, 1])) for r in ([1.0, 1.0], [1.0, 0.0]))
    >>> [a.round(3).tolist() for a in ReinforcePP().of_batch([solved, mixed])]
    [[0.0, 0.0], [1.225, -1.225]]
    >>> [a.round(3).tolist() for a in ReinforcePP(group_mean=False).of_batch([solved, mixed])]
    [[0.5, 0.5], [0.5, -1.5]]
    """

    group_mean: bool = Field(
        True,
        description=(
            "whether to subtract the group's mean reward before computing z-scores over the batch, as in REINFORCE++ "
            "w/ Baseline"
        ),
    )
    weight: Literal["sequence", "token"] = Field(
        "sequence",
        description=(
            "weights of responses in the mean and standard deviation of the batch's rewards: equal (sequence), or "
            "proportional to the number of tokens, as in verl and OpenRLHF (token)"
        ),
    )
    epsilon: float = Field(
        1e-8,
        ge=0,
        description="small constant added to the divisor of the z-score, to avoid division by zero",
    )

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
            x -= np.average(x, weights=w)  # second pass: removes the rounding error of the mean
        x = x / (np.sqrt((w * x**2).sum() / (w.sum() - 1)) + self.epsilon)
        ends = np.cumsum([int(m.valid_G.sum()) for m in groups])[:-1]
        for result_G, m, part in zip(result, groups, np.split(x, ends), strict=True):
            result_G[m.valid_G] = part
        return result
