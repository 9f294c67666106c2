"""DS-GRPO's differential smoothing, a shaper that rewards unlikely successes and penalises unlikely failures."""

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
    r"""Adds a response's surprisal (negative log-likelihood) to the advantage of a success, and subtracts the surprisal
    from the advantage of a failure.

    .. math:: \tilde A_i = A_i - \gamma_p \log \pi_\mathrm{old}(y_i) \;\text{ if it succeeds,} \qquad
              \tilde A_i = A_i + \gamma_n \log \pi_\mathrm{old}(y_i) \;\text{ otherwise}

    Among successes, probability moves towards rare responses. Among failures, probability moves towards likely
    responses, so failures become less diverse. The term thus acts as an entropy bonus on successes and an entropy
    penalty on failures. Every token of a response gets the same term. The log-likelihood covers the trainable tokens,
    as recorded at sampling. With ``likelihood: sum``, the log-likelihood is that of the whole response, as in the
    formula, so the term grows with length. With ``mean``, it is the mean over tokens.

    Degenerate cases: a group with only successes is reinforced, with the largest advantages for rare successes, since
    the mean of the added terms is not 0. A group with only failures is discouraged. Groups of one rollout are no
    exception. Advantages of rollouts that the verifier could not score do not change. Success means a correct verdict.

    Source: DS-GRPO, arXiv 2511.19942v2, equation 6 (with the sum over tokens), taken from two third-party notes that
    agree; only the paper's abstract and introduction were available. The paper's algorithm uses the old policy's
    likelihood, as this component does; the paper's theory uses the base model's likelihood. **We could not find the
    values of the coefficients**: the defaults are ours, and the mean over tokens is also our choice. UCPO's code (arXiv
    2605.00365) implements DS-GRPO for comparison, but does not change the advantages of a group that has only one
    success or only one failure. Equation 6 has no such exception.

    >>> m = Members(
    ...     np.array([1.0, 1, 0]), np.array([True, True, False]), np.array([1, 2, 1]),
    ...     logprobs_GT=[np.array([-4.0]), np.array([-1.0, -1.0]), np.array([-3.0])],
    ... )
    >>> base = [np.array([0.6]), np.array([0.6, 0.6]), np.array([-1.2])]
    >>> [a.round(2).tolist() for a in Smoothing(correct=0.1, wrong=0.1, likelihood="sum").shape(base, m, 1)]
    [[1.0], [0.8, 0.8], [-1.5]]
    """

    correct: float = Field(
        0.1,
        ge=0,
        description=(
            "coefficient of the surprisal (negative log-likelihood) added to the advantage of a correct response"
        ),
    )
    wrong: float = Field(
        0.1,
        ge=0,
        description=(
            "coefficient of the surprisal (negative log-likelihood) subtracted from the advantage of an incorrect "
            "response"
        ),
    )
    likelihood: Literal["mean", "sum"] = Field(
        "mean",
        description=(
            "whether a response's surprisal (negative log-likelihood) is the mean over its tokens (mean) or the sum "
            "(sum)"
        ),
    )

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        surprisals_G = np.array([-lp.sum() for lp in logprobs_of(members, "smoothing")])
        if self.likelihood == "mean":
            surprisals_G = surprisals_G / np.maximum(members.tokens_G, 1)
        added_G = np.where(members.success_G, self.correct, -self.wrong) * surprisals_G * members.valid_G
        return [a + added for a, added in zip(advantages_GT, added_G, strict=True)]
