"""Perplexity weighting: responses of low (or high) perplexity get more weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, model_validator

from outrider.arrays import Floats
from outrider.credit.chain import Shaper
from outrider.credit.members import Members
from outrider.credit.recorded import logprobs_of

_NO_SPREAD = 1e-6  # nats; below the resolution of float32 log-probabilities


class Perplexity(Shaper):
    r"""Scales a member's advantage by a factor that is linear in the z-score of the member's log-perplexity within the
    group.

    .. math:: \tilde A_{i,t} = A_{i,t} (1 - \alpha w_i), \qquad w_i = \frac{\ln P_i - \mu}{\sigma}, \qquad
              \ln P_i = -\frac{1}{|y_i|} \sum_t \log \pi_\mathrm{old}(y_{i,t})

    with the mean :math:`\mu` and population standard deviation :math:`\sigma` over the valid members, correct or not.
    Positive :math:`\alpha` favours responses of low perplexity; negative :math:`\alpha` favours high perplexity (the
    report tests both). Log-probabilities are those of trainable tokens, recorded at sampling. Since :math:`|w_i| \le
    \sqrt{n-1}`, no advantage changes its sign as long as :math:`|\alpha| \sqrt{n-1} < 1`. The factors have mean 1, but
    scaling may change a mean advantage of 0.

    Degenerate cases: the factor is 1 if only one member is valid or all perplexities are equal. (A standard deviation
    below 1e-6 is replaced by 1, as in the released code.) A member that the verifier could not score is excluded from
    the statistics, and its advantage does not change. An advantage of 0 stays 0.

    The released code has two more steps, which are options of this component and off by default. ``drop_outliers``
    excludes outliers from the mean and the standard deviation: members whose log-perplexity lies more than 1.5
    interquartile ranges outside the quartiles. The advantages of outliers are still scaled. ``clamp`` bounds the
    factor; the released code uses [0.8, 1.2].

    Source: STILL report, arXiv 2508.07534, equations 7 and 11; :math:`\alpha` from section 4.4.2. Our choice: we
    implement the formula as published. The released script for low perplexity computes the weight but never applies it,
    so the script trains plain GRPO.

    >>> m = Members(
    ...     np.array([1.0, 0]), np.array([True, False]), np.array([2, 1]),
    ...     logprobs_GT=[np.array([-0.5, -1.5]), np.array([-3.0])],
    ... )
    >>> [a.round(3).tolist() for a in Perplexity(weight=0.1).shape([np.array([1.0, 1.0]), np.array([-1.0])], m, 1)]
    [[1.1, 1.1], [-0.9]]
    """

    weight: float = Field(
        0.01,
        ge=-1,
        le=1,
        description=(
            "strength of the scaling; a positive value increases the absolute advantages of responses with low "
            "perplexity, and a negative value increases those of responses with high perplexity"
        ),
    )
    drop_outliers: bool = Field(
        False,
        description=(
            "whether to ignore responses with an outlying perplexity when the mean and standard deviation of the "
            "group's log-perplexities are computed"
        ),
    )
    clamp: tuple[float, float] | None = Field(
        None, description="minimum and maximum of the factor by which an advantage is multiplied; null: no bounds"
    )

    @model_validator(mode="after")
    def _bounds_hold_one(self) -> Perplexity:
        if self.clamp is not None and not 0 <= self.clamp[0] <= 1 <= self.clamp[1]:
            raise ValueError(
                f"clamp is [{self.clamp[0]}, {self.clamp[1]}], but must have a minimum in [0, 1] and a maximum >= 1"
            )
        return self

    def shape(self, advantages_GT: Sequence[Floats], members: Members, step: int) -> list[Floats]:
        factors_G = self.factors(members)
        return [a * factor for a, factor in zip(advantages_GT, factors_G, strict=True)]

    def factors(self, members: Members) -> Floats:
        """Return the factor on each member's advantage: float64 ``[G]``."""
        logprobs_GT, valid_G = logprobs_of(members, "perplexity"), members.valid_G
        factors_G = np.ones(members.size)
        if valid_G.any():
            log_ppl_G = np.array([-lp.sum() / max(len(lp), 1) for lp in logprobs_GT])
            factors_G[valid_G] -= self.weight * self._standardised(log_ppl_G[valid_G])
            if self.clamp is not None:
                factors_G = np.clip(factors_G, *self.clamp)
        return factors_G

    def _standardised(self, values: Floats) -> Floats:
        compared = values
        if self.drop_outliers:
            low, high = np.quantile(values, [0.25, 0.75])
            reach = 1.5 * (high - low)
            compared = values[(values >= low - reach) & (values <= high + reach)]
        spread = compared.std()
        standardised: Floats = (values - compared.mean()) / (spread if spread >= _NO_SPREAD else 1.0)
        return standardised
