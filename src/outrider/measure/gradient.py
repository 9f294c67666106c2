"""How hard each token pulls at the policy: the norm of its gradient through the language-model head."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats


def gradient_norms(error_norms_T: ArrayLike, hidden_norms_T: ArrayLike, factors_T: ArrayLike = 1.0) -> Floats:
    r"""Gradient norm of each token.

    .. math:: G_t = \big\| \alpha_t\, (e_{y_t} - \pi_t)\, h_t^\top \big\|_F
                  = |\alpha_t| \cdot \| e_{y_t} - \pi_t \|_2 \cdot \| h_t \|_2

    because the matrix has rank one: its ``[V, d]`` entries are never needed. With logits :math:`z = W h` this is the
    Frobenius norm of the derivative of the token's objective with respect to :math:`W`; with :math:`z = W h / \tau`,
    give factors divided by :math:`\tau`. Where input embeddings are tied to the head, their part is not in it.

    Args:
        error_norms_T: :func:`error_norms`.
        hidden_norms_T: Euclidean norms of what the head is applied to (after the last normalisation).
        factors_T: :func:`advantage_factors`; 1 gives the norm of the gradient of the log-probability.

    Degenerate cases: a certain token and a factor of 0 give 0; NaN in one of the three gives NaN.

    Source: STILL report, arXiv 2508.07534, Eqs. 4 and 14.

    >>> gradient_norms(error_norms([np.log(0.5)], [0.25]), [2.0], [-0.5]).round(4).tolist()
    [0.7071]
    """
    factors_T = np.abs(np.asarray(factors_T, dtype=np.float64))
    return np.asarray(factors_T * np.asarray(error_norms_T) * np.asarray(hidden_norms_T), dtype=np.float64)


def error_norms(logprobs_T: ArrayLike, other_squares_T: ArrayLike) -> Floats:
    r"""Norm of one-hot vector less distribution, from two numbers per token.

    .. math:: \| e_y - \pi \|_2^2 = (1 - \pi_y)^2 + \sum_{v \ne y} \pi_v^2

    between 0 and :math:`\sqrt 2`. The textbook form :math:`1 - 2\pi_y + \sum_v \pi_v^2` subtracts nearly equal numbers
    where the token is all but certain, as most are, and is mostly rounding there. So the sum is over the *other*
    tokens: set the probability of y to 0 before squaring.

    Args:
        logprobs_T: of the token, in nats.
        other_squares_T: :math:`\sum_{v \ne y} \pi_v^2`.

    >>> error_norms([0.0, np.log(0.25)], [0.0, 3 * 0.25**2]).round(4).tolist()
    [0.0, 0.866]
    """
    missing_T = -np.expm1(np.asarray(logprobs_T, dtype=np.float64))
    norms_T: Floats = np.sqrt(np.square(missing_T) + np.asarray(other_squares_T, dtype=np.float64))
    return norms_T


def gradient_norms_of(
    logprobs_TV: ArrayLike, targets_T: ArrayLike, hidden_TH: ArrayLike, factors_T: ArrayLike = 1.0
) -> Floats:
    """The same from whole distributions and hidden states, in float64: the reference, for small vocabularies.

    Raises:
        IndexError: a target is outside the vocabulary.

    >>> gradient_norms_of(np.log([[0.5, 0.5]]), [0], [[3.0, 4.0]]).round(4).tolist()
    [3.5355]
    """
    logps_TV, hidden = np.array(logprobs_TV, dtype=np.float64), np.asarray(hidden_TH, dtype=np.float64)
    rows_T, target_T = np.arange(len(logps_TV)), np.asarray(targets_T, dtype=np.int64)
    target_logps_T = logps_TV[rows_T, target_T].copy()
    logps_TV[rows_T, target_T] = -np.inf
    others_T = np.square(np.exp(logps_TV)).sum(axis=1)
    return gradient_norms(error_norms(target_logps_T, others_T), np.linalg.norm(hidden, axis=1), factors_T)


def advantage_factors(
    advantages_T: ArrayLike, ratios_T: ArrayLike = 1.0, clip: tuple[float, float] = (0.2, 0.2)
) -> Floats:
    r"""What multiplies the gradient of the log-probability in the clipped objective.

    .. math:: \alpha_t = \begin{cases} 0 & A_t > 0,\ r_t > 1 + \epsilon_\mathrm{high} \\
              0 & A_t < 0,\ r_t < 1 - \epsilon_\mathrm{low} \\ r_t A_t & \text{otherwise} \end{cases}

    the derivative of :math:`\min(r A, \mathrm{clip}(r, 1 - \epsilon, 1 + \epsilon) A)` with respect to
    :math:`\log \pi`. On-policy (r = 1) it is the advantage.

    Source: PPO, arXiv 1707.06347, Eq. 7; STILL report, arXiv 2508.07534, Eqs. 4 and 9. Deviation: the report's Eq. 4
    prints :math:`r \min(A, \mathrm{clip}(A, 1 - \epsilon, 1 + \epsilon))`, which clips the advantage where its
    objective clips the ratio; it is not the derivative of Eq. 9. :func:`printed_factors` is that formula.

    >>> advantage_factors([2.0, 2.0, -1.0, -1.0], [1.0, 1.5, 1.5, 0.5]).tolist()
    [2.0, 0.0, -1.5, 0.0]
    """
    advantage_T, ratio_T = np.broadcast_arrays(
        np.asarray(advantages_T, dtype=np.float64), np.asarray(ratios_T, dtype=np.float64)
    )
    low, high = clip
    clipped_T = ((advantage_T > 0) & (ratio_T > 1 + high)) | ((advantage_T < 0) & (ratio_T < 1 - low))
    return np.where(clipped_T, 0.0, ratio_T * advantage_T)


def printed_factors(
    advantages_T: ArrayLike, ratios_T: ArrayLike = 1.0, clip: tuple[float, float] = (0.2, 0.2)
) -> Floats:
    r""":math:`r \min(A, \mathrm{clip}(A, 1 - \epsilon, 1 + \epsilon))`, as the report prints it.

    It bounds advantages above at :math:`1 + \epsilon` and changes nothing else. For comparisons with the report's
    numbers only; see :func:`advantage_factors`.

    >>> printed_factors([2.0, 1.0, -1.0], [1.0, 1.5, 1.0]).tolist()
    [1.2, 1.5, -1.0]
    """
    low, high = clip
    advantage_T = np.asarray(advantages_T, dtype=np.float64)
    return np.asarray(ratios_T, dtype=np.float64) * np.minimum(advantage_T, np.clip(advantage_T, 1 - low, 1 + high))
