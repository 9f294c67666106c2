r"""Off-policy correction: importance weights and metrics for the mismatch between sampler and learner.

Two engines, or two weight versions, assign different probabilities to the same tokens. The learner's log-probabilities
from before the first update of a step replace the sampler's in the ratio, and the policy term of token :math:`t` is
multiplied by a constant weight derived from

.. math:: w_t = \frac{\pi_\mathrm{learner}(y_t)}{\pi_\mathrm{sampler}(y_t)} \text{ (token)}, \qquad
          \prod_u w_u \text{ (sequence)}, \qquad \Big(\prod_u w_u\Big)^{1/n} \text{ (geometric)}

The product of a response's token weights (``sequence``) is unbiased, but vanishes or explodes with the response's
length. Their geometric mean (``geometric``) neither vanishes nor explodes, but corrects only a small part of the
mismatch. Only the policy term is weighted. A masked row therefore still counts in the KL term, the entropy term and the
loss's denominators.

In some cases, the learner's log-probabilities are computed in an extra forward pass over all rows. This is done if a
step has several updates, if the correction needs all importance weights of a step at once, or if ``objective.select``
is set. Otherwise, these log-probabilities come from the update's own forward pass, which runs before the model's
parameters change.

Metrics are computed from the weights of trainable tokens, before weights are truncated or masked. With an extra pass,
metrics cover all rows, otherwise only the rows that are trained on. ``sampler_kl_k1`` and ``sampler_kl_k3`` estimate
:math:`KL(\pi_\mathrm{sampler} \| \pi_\mathrm{learner})` per token in nats. Metrics that begin with ``weight_`` are
statistics of the importance weights, of which there is one per token or one per row. ``weight_p01``, ``weight_p50`` and
``weight_p99`` are percentiles, and ``weight_max`` is the maximum. ``weight_ess`` is the effective sample size
:math:`(\sum w)^2 / \sum w^2`, divided by the number of weights. ``weight_clamped`` is the share of weights that are
truncated or masked (0 for the correction ``recompute``, whose weights are 1). Logarithms of weights are bounded to ±20.
If there are no trainable tokens, no metrics are reported.

Sampler and learner compute log-probabilities at the same temperature. The learner rejects batches whose rows were
sampled at different temperatures, or with ``top_p`` or ``top_k``.

Sources: Yao and others 2025, "Your efficient RL framework secretly brings you off-policy RL training" (token weights
truncated at 2); Liu and others 2025, "When speed kills stability" (masked sequence weights); IcePop (token weights
outside 0.5 to 5 are masked).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Flags, Floats
from outrider.options import Options
from outrider.record.row import WeightedRow

WeightLevel = Literal["token", "sequence", "geometric"]
_BOUND = 20.0


class Correction(Options):
    """A correction of the mismatch between sampler and learner. Fields are the recipe's options."""

    @property
    def weight_level(self) -> WeightLevel:
        """The level of importance weights: per token or per response."""
        return "token"

    @property
    def leaves_out(self) -> bool:
        """Whether the correction removes the policy gradient of individual tokens."""
        return False

    @property
    def per_weight(self) -> bool:
        """Whether :meth:`importance` corrects each weight independently of all other weights.

        If True and the step has one update, each micro-batch is corrected during the update's own forward pass.
        Otherwise, the learner first makes an extra forward pass, and then corrects the weights of all rows of the step
        in one call.
        """
        return False

    def importance(self, weights: Floats) -> tuple[Floats, Flags]:
        """Return the corrected weights, and a bool array that is True where a weight was truncated or masked."""
        raise NotImplementedError


class Weighed(NamedTuple):
    """The importance weights of several rows.

    Attributes:
        weights: the weights of all rows, concatenated, before truncation or masking.
        importance_R: for each row, one weight per trainable token, or one weight for the whole row.
        clamped: whether each of ``weights`` was truncated or masked.
    """

    weights: Floats
    importance_R: list[Floats]
    clamped: Flags


def weigh(correction: Correction, log_RN: Sequence[Floats]) -> Weighed:
    """Return the weights of rows, given the float64 log ratios (learner to sampler) of their trainable tokens.

    A row without trainable tokens has no weight.
    """
    of_level = _LEVELS[correction.weight_level]
    parts = [of_level(log_N) if len(log_N) else log_N for log_N in log_RN]
    weights = np.exp(np.clip(np.concatenate(parts), -_BOUND, _BOUND))
    importance, clamped = correction.importance(weights)
    return Weighed(weights, np.split(importance, np.cumsum([len(part) for part in parts])[:-1]), clamped)


def correct(
    correction: Correction, rows: Sequence[WeightedRow], logprobs_RN: Sequence[NDArray[np.floating]]
) -> tuple[list[WeightedRow], dict[str, float]]:
    """Return the corrected rows and the metrics. A corrected row has importance weights, and has the learner's
    log-probabilities in place of the sampler's.

    ``logprobs_RN``: the learner's log-probabilities of each row's ``token_ids``, before the first update of the step.
    """
    if not rows:
        return [], {}
    log_RN = [
        # float64 before the sum over a response, since the exponential amplifies rounding errors
        (new_N - row.old_logprobs_N)[row.trainable_N].astype(np.float64)
        for row, new_N in zip(rows, logprobs_RN, strict=True)
    ]
    weighed = weigh(correction, log_RN)
    corrected = []
    for row, new_N, part in zip(rows, logprobs_RN, weighed.importance_R, strict=True):
        importance_N = np.zeros(len(row.token_ids))
        importance_N[row.trainable_N] = part
        corrected.append(replace(row, old_logprobs_N=new_N, importance_N=importance_N))
    return corrected, _gauges(np.concatenate(log_RN), weighed.weights, weighed.clamped)


def _gauges(log_N: Floats, weights: Floats, clamped: Flags) -> dict[str, float]:
    if not len(log_N):
        return {}
    bounded = np.clip(log_N, -_BOUND, _BOUND)
    p01, p50, p99 = np.quantile(weights, (0.01, 0.5, 0.99))
    return {
        "sampler_kl_k1": float(-log_N.mean()),
        "sampler_kl_k3": float((np.exp(bounded) - 1 - bounded).mean()),
        "weight_p01": float(p01),
        "weight_p50": float(p50),
        "weight_p99": float(p99),
        "weight_max": float(weights.max()),
        "weight_ess": float(weights.sum() ** 2 / (weights**2).sum() / len(weights)),
        "weight_clamped": float(clamped.mean()),
    }


_LEVELS: dict[WeightLevel, Callable[[Floats], Floats]] = {
    "token": lambda log_N: log_N,
    "sequence": lambda log_N: log_N.sum(keepdims=True),
    "geometric": lambda log_N: log_N.mean(keepdims=True),
}
