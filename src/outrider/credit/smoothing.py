"""DS-GRPO's differential smoothing: rare ways to be right are rewarded, rare ways to be wrong are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import logprobs_of


class Smoothing(Shaper):
    r"""Adds to a success for being unlikely, and takes from a failure for it.

    .. math:: \tilde A_i = A_i - \gamma_p \log \pi_\mathrm{old}(y_i) \;\text{ if it succeeds,} \qquad
              \tilde A_i = A_i + \gamma_n \log \pi_\mathrm{old}(y_i) \;\text{ otherwise}

    Probability moves among the successes towards the rare ones, and among the failures towards the likely ones, so that
    what is wrong stays in few places. It is a bonus for entropy on successes and a penalty for it on failures. Every
    token of a member gets the same addition. The likelihood is that of the trainable tokens as they were sampled, under
    ``sum`` of the whole response, as the equation is written (the addition then grows with length), under ``mean`` of a
    token.

    Degenerate cases: nothing is centred, so a group of successes alone goes up, the rare ones more, and one of failures
    alone goes down; one member too. A stage that drops such groups takes this away. Members that are not valid are not
    changed. Whether a member succeeds is its verdict.

    Source: DS-GRPO, arXiv 2511.19942v2, Eq. 6 (a sum), by two readers who agree; of the paper abstract and introduction
    could be had. Its practice has the old policy's likelihood, as here, its theory that of the base. **The values of
    the coefficients could not be had**: the defaults are ours, and so is the mean over tokens. The code of UCPO (arXiv
    2605.00365) has the method as a baseline, and adds nothing where a group has one success, or one failure, alone;
    that is not in the equation.

    >>> m = Members(
    ...     np.array([1.0, 1, 0]), np.array([True, True, False]), np.array([1, 2, 1]),
    ...     logprobs_GT=[np.array([-4.0]), np.array([-1.0, -1.0]), np.array([-3.0])],
    ... )
    >>> base = [np.array([0.6]), np.array([0.6, 0.6]), np.array([-1.2])]
    >>> [a.round(2).tolist() for a in Smoothing(correct=0.1, wrong=0.1, likelihood="sum").shape(base, m, 1)]
    [[1.0], [0.8, 0.8], [-1.5]]
    """

    correct: float = Field(0.1, ge=0, description="factor on the surprisal that is added to a success")
    wrong: float = Field(0.1, ge=0, description="factor on the surprisal that is subtracted from a failure")
    likelihood: Literal["mean", "sum"] = Field("mean", description="likelihood of each token, or of the whole response")

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        surprisals_G = np.array([-lp.sum() for lp in logprobs_of(members, "smoothing")])
        if self.likelihood == "mean":
            surprisals_G = surprisals_G / np.maximum(members.tokens_G, 1)
        added_G = np.where(members.success_G, self.correct, -self.wrong) * surprisals_G * members.valid_G
        return [a + added for a, added in zip(advantages_GT, added_G, strict=True)]
