"""Pass@k baselines: a response's advantage is its contribution to the best reward of k responses."""

from __future__ import annotations

from math import comb
from typing import Literal

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Baseline
from outrider.credit.leave_one_out import LeaveOneOut
from outrider.credit.members import Members


class PassK(Baseline):
    r"""A member's contribution to the best reward of ``k`` responses, averaged over all subsets of k group members.

    Let :math:`S` run over the subsets of size k of the n valid members, with best reward :math:`g_S = \max_{j \in S}
    r_j`. :math:`M_i` is the mean of :math:`g_S` over the subsets that contain member i. :math:`M` and :math:`\sigma`
    are the mean and (population) standard deviation of :math:`g_S` over all subsets.

    * ``training``: :math:`A_i = (M_i - M) / (\sigma + \epsilon)`. With rewards of 0 and 1 these advantages equal
      equations 14 and 15 of Pass@k Training: :math:`(1 - M)/\sigma` for a success and :math:`\big(1 - M -
      \tbinom{n-c-1}{k-1} / \tbinom{n-1}{k-1}\big) / \sigma` for one of the :math:`n - c` failures, where :math:`M = 1 -
      \tbinom{n-c}{k} / \tbinom{n}{k}`.
    * ``pkpo``: :math:`A_i = k` times the mean of :math:`g_S - g_{S \setminus i}` over the subsets that contain i, which
      is n times PKPO's equation 33. A failure gets 0. For k = 1, where :math:`S \setminus i` is empty, ``pkpo`` is
      :class:`LeaveOneOut`, as in the paper.
    * ``pkpo_centred``: :math:`A_i = k (M_i - M)`, which is k times the numerator of ``training``, and n times the
      difference between PKPO's equation 19 and its group mean. For k = 1, ``pkpo_centred`` is :class:`GroupMean`
      without ``std``.

    The mean over members of :math:`A_i \nabla \log \pi(y_i)` estimates the gradient of pass@k (for rewards other than 0
    and 1, the gradient of the expected best reward of k responses). Under ``pkpo`` the estimate is unbiased; under
    ``pkpo_centred`` it is scaled by exactly the factor :math:`1 - k/n`. PKPO sums over members instead of averaging, so
    PKPO's equations are multiplied by n here.

    Advantages are computed from the differences of sorted rewards. From the j-th reward (counted from 0) to the next,
    :math:`M_i` rises by :math:`\tbinom{j}{k-1} / \tbinom{n-1}{k-1}` times the difference, and equation 33 times n / k
    rises by :math:`\tbinom{j+1}{k-1} / \tbinom{n-1}{k-1}` times the difference. So equal rewards have equal advantages,
    and a higher reward never has a lower advantage.

    Degenerate cases: if there are fewer than k valid members (rollouts that the verifier could score), or if all
    rewards are exactly equal, all members get exactly 0. Under ``training`` all members also get 0 if every subset of k
    members contains the highest reward of the group. This happens if fewer than k members have a lower reward, and
    always if k = n. An invalid member gets 0 and does not affect the other members.

    Sources: Pass@k Training, Chen et al. 2025, arXiv 2508.10751, section 2.4, and its released code (for rewards of 0
    and 1, with epsilon 1e-6); PKPO, Walder & Karkhanis 2025, arXiv 2505.15201, sections 3.2 and 4.3.

    >>> m = Members(np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]), np.full(4, 5))
    >>> PassK(k=2).advantages(m).round(3).tolist()
    [1.0, -0.333, -0.333, -0.333]
    >>> PassK(k=2, variant="pkpo").advantages(m).tolist()
    [2.0, 0.0, 0.0, 0.0]
    """

    k: int = Field(4, ge=1, description="k of the pass@k objective; at most the number of rollouts per problem")
    variant: Literal["training", "pkpo", "pkpo_centred"] = Field(
        "training",
        description=(
            'estimator of the advantages: as in the paper "Pass@k Training" (training), as in the paper "PKPO" (pkpo), '
            "or PKPO's transformed rewards minus their group mean (pkpo_centred)"
        ),
    )
    epsilon: float = Field(
        1e-6,
        ge=0,
        description=(
            "small constant that avoids division by zero when advantages are divided by a standard deviation; used "
            "only with"
            "`variant: training`"
        ),
    )

    def advantages(self, members: Members) -> Floats:
        valid_G = members.valid_G
        rewards = members.rewards_G[valid_G]
        result_G = np.zeros(members.size)
        n, k = len(rewards), self.k
        if n < max(k, 2):
            return result_G
        if self.variant == "pkpo" and k == 1:
            return LeaveOneOut().advantages(members)
        order = np.argsort(rewards, kind="stable")
        gains = np.diff(rewards[order])
        shares = [comb(j + (self.variant == "pkpo"), k - 1) / comb(n - 1, k - 1) for j in range(n - 1)]
        values = np.concatenate(
            [[0.0], np.cumsum(np.array(shares) * gains)]
        )  # M_i, or Eq. 33, relative to the lowest reward
        if self.variant != "pkpo":
            values -= values.mean()
            values -= values.mean()  # second pass: removes the rounding error of the mean
        if self.variant == "training":
            values = values / (_deviation(gains, k) + self.epsilon) if values.any() else values
        else:
            values = values * k
        result_G[np.flatnonzero(valid_G)[order]] = values
        return result_G


def _deviation(gains: Floats, k: int) -> float:
    """Return the population standard deviation of the best reward in a subset, over all subsets of ``k`` rewards.
    ``gains`` are the differences between successive sorted rewards."""
    n = len(gains) + 1
    chances = np.array([comb(j, k - 1) / comb(n, k) for j in range(n)])  # probability that a subset's best is the j-th
    best = np.concatenate([[0.0], np.cumsum(gains)])
    return float(np.sqrt(chances @ (best - chances @ best) ** 2))
