r"""Statistics of the policy's token entropies: means by relative position, and quantiles.

Exact entropies are :math:`H_t = -\sum_v \pi(v \mid s_t) \log \pi(v \mid s_t)` in nats, over the full distribution. If
only log-probabilities of the sampled tokens exist, the *surprisal* :math:`-\log \pi(y_t \mid s_t)` replaces the
entropy. For tokens sampled at temperature 1 without top-p or top-k, mean surprisal is an unbiased estimate of mean
entropy. A single surprisal is not an entropy, so quantiles and highest values of surprisal do not estimate those of
entropy. A mean over a group of tokens is biased if the group depends on the sampled tokens. This is the case for groups
by token category, by outcome, and by relative position, which depends on the response's length. Reports must state
whether they show entropy or surprisal.

Source: STILL report, arXiv 2508.07534, Eq. 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.measure.groups import Profile, means_by_group
from outrider.measure.ragged import highest, lengths_of, owners, relative_bins


def by_relative_position(values_T: ArrayLike, lengths_R: ArrayLike, starts_R: ArrayLike = 0, bins: int = 20) -> Profile:
    """Return the mean value in each of ``bins`` equal parts of the response. Each part is named by its midpoint in (0,
    1).

    The means show whether entropy is U-shaped over the response. Every token has the same weight, so long responses
    have more weight. If a response continues a prefix of another rollout, ``starts_R`` is the length of the prefix,
    which is not in ``values_T``. See :func:`relative_bins` for short responses.

    Raises:
        ValueError: the sum of the lengths is not the number of tokens.

    Source: STILL report, Figure 6(a).

    >>> found = by_relative_position([2.0, 0.0, 0.0, 1.0], [4], bins=2)
    >>> found.groups, [m.value for m in found.means]
    ((0.25, 0.75), [1.0, 0.5])
    """
    known_R = lengths_of(lengths_R, len(np.asarray(values_T)))
    middles = [(i + 0.5) / bins for i in range(bins)]
    return means_by_group(values_T, relative_bins(known_R, bins, starts_R), owners(known_R), middles)


class Spread(NamedTuple):
    """The distribution of token entropies.

    Attributes:
        quantiles: quantiles of token entropy in nats; the key 0.5, for example, is the median.
        threshold: the smallest entropy among the forking tokens (the tokens with the highest entropies).
        carried: share of the total entropy that belongs to the forking tokens; NaN if the total entropy is 0. If
            several tokens have exactly the threshold entropy, some of them are excluded, so that the number of forking
            tokens is as requested.
    """

    quantiles: dict[float, float]
    threshold: float
    carried: float


def spread(
    values_T: ArrayLike,
    levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.8, 0.95, 0.99),
    share: float = 0.2,
) -> Spread:
    """Return quantiles of token entropy, and how much of the total entropy belongs to the forking tokens. The forking
    tokens are the ``share`` of tokens with the highest entropies.

    NaN values are excluded. If there are no values, all results are NaN.

    Source: Wang et al. 2025, arXiv 2506.01939, who call the 20 % of tokens with the highest entropies forking tokens.

    >>> spread([0.0, 0.0, 0.0, 1.0, 3.0], levels=[0.5], share=0.2)
    Spread(quantiles={0.5: 0.0}, threshold=3.0, carried=0.75)
    """
    all_T = np.asarray(values_T, dtype=np.float64)
    known_T = np.sort(all_T[~np.isnan(all_T)])
    if not len(known_T):
        return Spread(dict.fromkeys(levels, np.nan), np.nan, np.nan)
    chosen = max(1, int(share * len(known_T) + 1e-9))
    total = known_T.sum()
    return Spread(
        quantiles={x: float(np.quantile(known_T, x)) for x in levels},
        threshold=float(known_T[highest(known_T, share)].min()),
        carried=float(known_T[-chosen:].sum() / total) if total > 0 else np.nan,
    )
