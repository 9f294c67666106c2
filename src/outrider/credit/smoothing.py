"""DS-GRPO's differential smoothing: rewards unlikely successes and penalises unlikely failures."""

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
    r"""Adds a member's surprisal to the advantage of a success, and subtracts it from that of a failure.

    .. math:: \tilde A_i = A_i - \gamma_p \log \pi_\mathrm{old}(y_i) \;\text{ if it succeeds,} \qquad
              \tilde A_i = A_i + \gamma_n \log \pi_\mathrm{old}(y_i) \;\text{ otherwise}

    Among successes probability moves towards rare ones; among failures it moves towards likely ones, which concentrates
    failures. This is an entropy bonus on successes and an entropy penalty on failures. Every token of a member gets the
    same term. The log-likelihood is that of the trainable tokens at sampling: under ``sum`` that of the whole response,
    as in the equation (the term then grows with length), under ``mean`` the mean per token.

    Degenerate cases: the term is not centred. So in a group of successes only all are reinforced, rare ones more, and
    in a group of failures only all are discouraged; the same holds for one member. A stage that drops such groups
    removes this effect. Invalid members do not change. Success is by verdict.

    Source: DS-GRPO, arXiv 2511.19942v2, Eq. 6 (a sum), from two consistent readers' notes; of the paper only abstract
    and introduction could be read. Its algorithm uses the old policy's likelihood, as here, its theory that of the base
    model. **The values of the coefficients could not be found**: the defaults are ours, and so is the mean over tokens.
    The code of UCPO (arXiv 2605.00365) has the method as a baseline, and adds nothing where a group has only one
    success, or only one failure; the equation does not have this exception.

    >>> m = Members(
    ...     np.array([1.0, 1, 0]), np.array([True, True, False]), np.array([1, 2, 1]),
    ...     logprobs_GT=[np.array([-4.0]), np.array([-1.0, -1.0]), np.array([-3.0])],
    ... )
    >>> base = [np.array([0.6]), np.array([0.6, 0.6]), np.array([-1.2])]
    >>> [a.round(2).tolist() for a in Smoothing(correct=0.1, wrong=0.1, likelihood="sum").shape(base, m, 1)]
    [[1.0], [0.8, 0.8], [-1.5]]
    """

    correct: float = Field(
        0.1, ge=0, description="coefficient of the surprisal added to the advantage of a correct response"
    )
    wrong: float = Field(
        0.1, ge=0, description="coefficient of the surprisal subtracted from the advantage of an incorrect response"
    )
    likelihood: Literal["mean", "sum"] = Field(
        "mean", description="surprisal of a response: mean or sum over its tokens"
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        surprisals_G = np.array([-lp.sum() for lp in logprobs_of(members, "smoothing")])
        if self.likelihood == "mean":
            surprisals_G = surprisals_G / np.maximum(members.tokens_G, 1)
        added_G = np.where(members.success_G, self.correct, -self.wrong) * surprisals_G * members.valid_G
        return [a + added for a, added in zip(advantages_GT, added_G, strict=True)]
