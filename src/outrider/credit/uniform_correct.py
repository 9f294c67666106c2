"""UCPO: redistributes the advantages of a group's successes towards rare successes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import logprobs_of

_LEAST = 1e-6  # minimum likelihood share of a success, as in the released code


class UniformCorrect(Shaper):
    r"""Raises the advantages of a group's less likely successes, and lowers the advantages of its more likely
    successes.

    .. math:: \tilde A_i = A_i \Big(1 - \tau + \tau\, m \frac{1/q_i}{\sum_j 1/q_j}\Big), \qquad
              q_i = \frac{e^{s_i}}{\sum_j e^{s_j}}, \quad s_i = \frac{1}{|y_i|} \sum_t \log \pi_\mathrm{old}(y_{i,t})

    Here :math:`j` runs over the ``m`` valid successes of the group. The factors by which the advantages of these
    successes are multiplied have the mean 1. So if all successes have equal advantages, the sum of the group's
    advantages does not change. If :math:`s_i` were the log-likelihood of the whole response, the gradient would be that
    of :math:`\log Z - \tau\, \mathrm{KL}(u \,\|\, q)`, with :math:`Z` the total probability of correct responses,
    :math:`q` their distribution and :math:`u` the uniform distribution. As in UCPO, :math:`s_i` is the mean
    log-likelihood per token, so the effect is milder.

    Degenerate cases: if there are fewer than two valid successes, or all successes are equally likely, nothing changes.
    In a group with only successes, a group baseline gives advantages of 0, which stay 0. Advantages of failures and
    invalid members (rollouts that the verifier could not score) never change. A :math:`q_i` below 1e-6 counts as 1e-6.

    Source: UCPO, arXiv 2605.00365v1 (abstract and third-party notes), and its released code. The released code gives
    every success the advantage of the first success. In this shaper each success keeps its own advantage, which gives
    the same result if rewards are not shaped.

    >>> m = Members(
    ...     np.array([1.0, 1, 0]), np.array([True, True, False]), np.array([1, 2, 1]),
    ...     logprobs_GT=[np.log([0.25]), np.log([0.75, 0.75]), np.log([0.5])],
    ... )
    >>> base = [np.array([0.5]), np.array([0.5, 0.5]), np.array([-1.0])]
    >>> [a.round(3).tolist() for a in UniformCorrect(tau=0.4).shape(base, m, 1)]
    [[0.6], [0.4, 0.4], [-1.0]]
    """

    tau: float = Field(
        0.2,
        ge=0,
        le=1,
        description=(
            "strength of the reweighting that favours rare successes, so that all successes become equally likely; 0: "
            "no reweighting"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        scores_G = np.array([lp.sum() / max(len(lp), 1) for lp in logprobs_of(members, "uniform_correct")])
        chosen_G, weights_G = members.success_G & members.valid_G, np.ones(members.size)
        if chosen_G.sum() > 1:
            shares = np.exp(scores_G[chosen_G] - scores_G[chosen_G].max())  # the largest is 1: no overflow
            rarities = 1.0 / np.maximum(shares / shares.sum(), _LEAST)
            weights_G[chosen_G] = 1.0 - self.tau + self.tau * rarities / rarities.mean()
        return [a * weight for a, weight in zip(advantages_GT, weights_G, strict=True)]
