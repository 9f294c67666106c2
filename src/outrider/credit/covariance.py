"""Covariance weighting: down-weights the few tokens whose update would lower entropy the most."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import logprobs_of


class Covariance(Shaper):
    r"""Scales the advantages of the tokens with the highest covariance between log-probability and advantage.

    .. math:: c_{i,t} = \big(\log\pi_\mathrm{old}(y_{i,t}) - \overline{\log\pi_\mathrm{old}}\big)
              \big(A_{i,t} - \bar A\big), \qquad
              \tilde A_{i,t} = \begin{cases} w A_{i,t} & c_{i,t} \text{ among the highest share} \\ A_{i,t} &
              \text{otherwise} \end{cases}

    The means of the log-probabilities and of the advantages are over all N trainable tokens of the group's valid
    members. A policy-gradient step lowers the entropy in proportion to this covariance, and a small share of the tokens
    accounts for most of the covariance. The number of chosen tokens is :math:`\max(1, \lfloor \mathrm{share}\, N
    \rfloor)`, so in a group of short responses the chosen share may exceed the option ``share``. Tokens with the same
    covariance as the last chosen token are also chosen. Tokens with a covariance of 0 or less are never chosen. The
    log-probability and the advantage of a chosen token are therefore either both above or both below their means.

    Degenerate cases: if all advantages, or all log-probabilities, are equal, no token is chosen. Tokens of invalid
    members (rollouts that the verifier could not score) are excluded from the means, and their advantages do not
    change.

    Source: Cui et al. 2025, arXiv 2505.22617. The covariance is Eq. 10. Tokens are ranked as in KL-Cov (Eq. 13). With
    the default weight w = 0, the chosen tokens have no gradient, as in Clip-Cov (Eq. 12). Deviations: both methods in
    the paper choose tokens from the whole batch, and Clip-Cov chooses them at random within a covariance range. The
    paper's own methods are options of the loss (``objective.select``). This shaper gets one group at a time, so it
    chooses tokens within a group.

    >>> m = Members(
    ...     np.array([1.0, 0]), np.array([True, False]), np.array([2, 2]),
    ...     logprobs_GT=[np.array([-0.1, -1.0]), np.array([-0.5, -1.2])],
    ... )
    >>> [a.tolist() for a in Covariance(share=0.25).shape([np.array([1.0, 1.0]), np.array([-1.0, -1.0])], m, 1)]
    [[0.0, 1.0], [-1.0, -1.0]]
    """

    share: float = Field(
        0.002,
        gt=0,
        le=1,
        description=(
            "fraction of the group's tokens to choose; the tokens with the highest covariance between "
            "log-probability and advantage are chosen, and their advantages are scaled"
        ),
    )
    weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "factor by which the advantages of the tokens with the highest covariance are multiplied; 0: no gradient "
            "from these tokens; 1: no change"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        logprobs_GT = logprobs_of(members, "covariance")
        counted = [int(member) for member in np.flatnonzero(members.valid_G)]
        result_GT = [a.copy() for a in advantages_GT]
        if not counted:
            return result_GT
        covariances = _centred([logprobs_GT[i] for i in counted]) * _centred([advantages_GT[i] for i in counted])
        chosen = max(1, math.floor(self.share * len(covariances) + 1e-9))  # 0.29 * 100 is slightly below 29
        threshold = np.partition(covariances, -chosen)[-chosen]
        weights = np.where((covariances >= threshold) & (covariances > 0), self.weight, 1.0)
        ends = np.cumsum(members.tokens_G[members.valid_G])[:-1]
        for member, weights_T in zip(counted, np.split(weights, ends), strict=True):
            result_GT[member] *= weights_T
        return result_GT


def _centred(values_GT: Sequence[Floats]) -> Floats:
    """Concatenate and centre all values. The result is exactly 0 if all values are equal."""
    values = np.concatenate(values_GT)
    if (values == values[0]).all():
        return np.zeros(len(values))
    return values - math.fsum(values) / len(values)
