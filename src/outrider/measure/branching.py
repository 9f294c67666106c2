"""Rollout branching factor: how many tokens the policy could plausibly have gone on with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats, Ints
from outrider.measure.groups import Mean, means_by_group
from outrider.measure.ragged import lengths_of, owners

ROUNDING = 1e-6
"""A mass this close below the one asked for counts as reached: log-probabilities in float32 are not surer."""

_HEAD = 256  # tokens looked at first; a vocabulary is sorted whole only where they do not hold the mass
_CHUNK = 4_000_000  # probabilities held at once: 32 MB


def candidates(logprobs_NV: ArrayLike, mass: float = 0.95, temperature: float = 1.0) -> Ints:
    r"""Size of the nucleus at each position, ``[N]``: the fewest tokens that together hold at least ``mass``.

    .. math:: B_n = \min\Big\{ k : \sum_{i=1}^{k} p_{(i)} \ge \mathrm{mass} \Big\}, \qquad
              p = \mathrm{softmax}(\log \pi / \tau)

    with :math:`p_{(1)} \ge p_{(2)} \ge \ldots` The token that crosses the mass is counted, so there is always one.
    Log-probabilities of any normalisation (logits) give the same. Equal probabilities make no difference: the number
    does not say which of them are inside. ``mass = 1`` counts every token of positive probability.

    Rows are worked off a chunk at a time, in float64; a caller who cannot hold ``[N, V]`` calls this for parts.

    Degenerate cases: no rows give no numbers. A mass missed by less than :data:`ROUNDING` is reached.

    Raises:
        ValueError: ``mass`` is not in (0, 1], ``temperature`` is not positive, or a row holds a NaN or no
            finite value.

    Source: STILL report, arXiv 2508.07534, section 2.2, with mass 0.95. Decided: the report does not say whether the
    token on the boundary counts (it does), nor at which temperature (1).

    >>> candidates(np.log([[0.5, 0.3, 0.15, 0.05], [0.97, 0.01, 0.01, 0.01]])).tolist()
    [3, 1]
    >>> candidates(np.log([[0.5, 0.3, 0.2]]), mass=0.8).tolist()  # through logarithms a hair less than 0.8
    [2]
    """
    if not 0 < mass <= 1:
        raise ValueError(f"the mass of a nucleus must be in (0, 1], not {mass}")
    if not temperature > 0:
        raise ValueError(f"the temperature of a branching factor must be positive, not {temperature}")
    rows_NV = np.atleast_2d(np.asarray(logprobs_NV))
    step = max(1, _CHUNK // max(rows_NV.shape[-1], 1))
    parts = [_counts(rows_NV[at : at + step], mass, temperature) for at in range(0, len(rows_NV), step)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def branching_factor(
    candidates_T: ArrayLike,
    lengths_R: ArrayLike,
    problems_R: ArrayLike | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Mean:
    """Mean number of candidates over all positions of all responses, with an interval over responses.

    With ``problems_R``, the problem of each response, it is over problems: responses to one are alike. Every token has
    the same weight. ``candidates_T`` as :func:`candidates` counts them, NaN left out; for lengths, see
    :mod:`outrider.measure.ragged`. No tokens: NaN.

    Raises:
        ValueError: the lengths do not add up to the tokens.

    >>> branching_factor([1, 2, 6], [1, 2], resamples=0).value
    3.0
    """
    count_T = np.asarray(candidates_T, dtype=np.float64)
    owners_T = owners(lengths_of(lengths_R, len(count_T)))
    groups_T = np.zeros(len(count_T), dtype=np.int64)
    found = means_by_group(count_T, groups_T, owners_T, ["all"], resamples=resamples, seed=seed, level=level)
    if problems_R is not None:
        numbers_R = np.unique(np.asarray(problems_R), return_inverse=True)[1]
        found = found.over_problems(numbers_R, resamples, seed)
    return found["all"]


def _counts(logprobs_nV: Floats, mass: float, temperature: float) -> Ints:
    scaled_nV = logprobs_nV.astype(np.float64)
    highest_n1 = scaled_nV.max(axis=1, keepdims=True, initial=-np.inf)
    if not np.isfinite(highest_n1).all():  # a NaN wins every maximum
        raise ValueError("a row of log-probabilities holds a NaN or no finite value")
    scaled_nV = (scaled_nV - highest_n1) / temperature
    if mass == 1:
        return np.asarray(np.isfinite(scaled_nV).sum(axis=1), dtype=np.int64)
    probs_nV = np.exp(scaled_nV, out=scaled_nV)
    needed_n = (mass - ROUNDING) * probs_nV.sum(axis=1)
    head = min(_HEAD, probs_nV.shape[1])
    counts_n = _reached(np.partition(probs_nV, -head, axis=1)[:, -head:], needed_n)
    wide_n = counts_n > head
    if wide_n.any():
        counts_n[wide_n] = _reached(probs_nV[wide_n], needed_n[wide_n])
    return counts_n


def _reached(probs_nK: Floats, needed_n: Floats) -> Ints:
    """The fewest of the highest that reach what is needed; K + 1 where all together do not."""
    sums_nK = np.cumsum(np.sort(probs_nK, axis=1)[:, ::-1], axis=1)
    return np.asarray((sums_nK < needed_n[:, None]).sum(axis=1) + 1, dtype=np.int64)
