r"""Token selection: which tokens of an optimizer batch are treated otherwise. NumPy only.

Chosen over all rows of the optimizer batch, on all ranks, before it is split, so neither micro-batches nor the order of
rows nor the number of processes enters. What is read is known before the forward pass: advantages, recorded entropies,
and old log-probabilities (the sampler's, or with ``objective.correction`` the learner's). In the first update of a
step they are those of the policy itself; in later ones they are as old as the samples. Among equals at the threshold
all are chosen. Denominators stay as they are. Of :math:`N` trainable tokens of rows that
weigh something, a share means :math:`\max(1, \lfloor \mathrm{share}\, N \rfloor)`.

**Forking tokens**: the share with the highest entropy :math:`H_t` keeps its policy gradient, the rest has none.
arXiv 2506.01939 (share 0.2; its denominator counts all tokens too).

**Covariance**: :math:`\mathrm{cov}_t = (\log\pi_\mathrm{old}(y_t) - \overline{\log\pi_\mathrm{old}}) (A_t - \bar A)`,
means over the N tokens. Tokens of high covariance are those whose update costs the most entropy.
arXiv 2505.22617, Eq. 10.

* Clip-Cov (Eqs. 11 and 12; share 2e-4, covariance in [1, 5]): of the tokens in the range, a share of N drawn at random
  loses its policy gradient. The draw is by identity of rollout and position, so it is the same in every epoch. None in
  the range: none is drawn. The released code draws among tokens that the ratio's clip leaves alone; here both act.
* KL-Cov (Eqs. 13 and 14; share 2e-3 for 7B, 2e-4 for 32B, coefficient 1): the share with the highest covariance is
  held by the penalty :math:`\mathrm{coef}\, |\log\pi - \log\pi_\mathrm{old}|`, the estimator of the released code, on
  top of its policy gradient. The paper's surrogate is ``unclipped``. Only positive covariances are chosen: where all
  advantages are equal, none is. In the first update of a step the penalty and its gradient are 0, up to what a pass
  over another batch differs by in rounding (:func:`outrider.objective.kl.moved`); with matrix products in bfloat16
  that is too little, and the signs of that noise are gradients, as in the released code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.objective.entropy import entropies_of
from outrider.objective.options import ClipCov, Forking, KlCov, Selection
from outrider.record.identity import identity_seed, uniforms
from outrider.record.row import Row

Floats = NDArray[np.float64]


class Selected(NamedTuple):
    """What a selection says about each token of a row; None: nothing.

    Attributes:
        keeps_N: bool, whether a token keeps its policy gradient.
        penalties_N: coefficient of its distance from the policy that sampled.
    """

    keeps_N: NDArray[np.bool_] | None = None
    penalties_N: Floats | None = None


def select(options: Selection | None, rows: Sequence[Row]) -> list[Selected]:
    """One answer per row; ``rows`` are those of an optimizer batch that weigh something.

    Raises:
        UserError: a selection by entropy, and the sampler records none.
    """
    if options is None or not any(row.trainable_N.any() for row in rows):
        return [Selected()] * len(rows)
    return _SELECTIONS[type(options)](options, rows)


def _forking(options: Forking, rows: Sequence[Row]) -> list[Selected]:
    entropies = [entropies_of(row, "objective.select.forking") for row in rows]
    threshold = _highest(_trainable(rows, entropies), options.share)
    return [Selected(keeps_N=(e >= threshold) & row.trainable_N) for row, e in zip(rows, entropies, strict=True)]


def _clip_cov(options: ClipCov, rows: Sequence[Row]) -> list[Selected]:
    covariances = _covariances(rows)
    draws = []
    for row, cov_N in zip(rows, covariances, strict=True):
        drawn_N = uniforms(np.array([identity_seed("clip_cov", row.seed)]), np.arange(len(cov_N)))[0]
        draws.append(np.where((cov_N >= options.low) & (cov_N <= options.high), drawn_N, -1.0))
    threshold = max(_highest(_trainable(rows, draws), options.share), 0.0)
    return [Selected(keeps_N=draws_N < threshold) for draws_N in draws]


def _kl_cov(options: KlCov, rows: Sequence[Row]) -> list[Selected]:
    covariances = _covariances(rows)
    threshold = _highest(_trainable(rows, covariances), options.share)
    chosen = [(cov_N >= threshold) & (cov_N > 0) for cov_N in covariances]
    return [Selected(penalties_N=np.where(chosen_N, options.coef, 0.0)) for chosen_N in chosen]


def _covariances(rows: Sequence[Row]) -> list[Floats]:
    """Of every own token, 0 where not trainable."""
    mean_logprob = _mean(_trainable(rows, [row.old_logprobs_N for row in rows]))
    mean_advantage = _mean(_trainable(rows, [row.advantages_N for row in rows]))
    return [
        np.where(row.trainable_N, (row.old_logprobs_N - mean_logprob) * (row.advantages_N - mean_advantage), 0.0)
        for row in rows
    ]


def _mean(values: Floats) -> float:
    """Exact where all are equal, so that no rounding is a covariance; else a rounded sum, so order is nothing."""
    return float(values[0]) if (values == values[0]).all() else math.fsum(values) / len(values)


def _highest(values: Floats, share: float) -> float:
    """The least of the highest ``share`` of values."""
    chosen = max(1, math.floor(share * len(values) + 1e-9))  # 0.29 * 100 is a hair below 29
    return float(np.partition(values, len(values) - chosen)[len(values) - chosen])


def _trainable(rows: Sequence[Row], values: Sequence[NDArray[np.floating]]) -> Floats:
    return np.concatenate([v[row.trainable_N] for row, v in zip(rows, values, strict=True)]).astype(np.float64)


_SELECTIONS: dict[type[Selection], Callable[[Any, Sequence[Row]], list[Selected]]] = {
    Forking: _forking,
    ClipCov: _clip_cov,
    KlCov: _kl_cov,
}
