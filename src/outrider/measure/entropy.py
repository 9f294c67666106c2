r"""Token entropies of the policy, by position and size.

Exact values are :math:`H_t = -\sum_v \pi(v \mid s_t) \log \pi(v \mid s_t)` in nats, of the full distribution. Where
only log-probabilities of the sampled tokens exist, :math:`-\log \pi(y_t \mid s_t)` replaces them (the *surprisal*). Its
mean over tokens sampled from that distribution (temperature 1, no truncation of the distribution) is the mean entropy;
a single value is not an entropy. So quantiles and highest tokens describe surprisal. For groups that depend on the
sampled token (its category, its outcome, and through the length its relative position) the mean is a biased estimate of
entropy. Outputs must state which of the two they show.

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
    """Mean per equal part of the response (the U shape). Groups are the midpoints of the parts, in (0, 1).

    Every token has the same weight, so long responses have more weight. ``starts_R``: own tokens' offset in the whole
    response, for branches; see :func:`relative_bins` for these and for short responses.

    Raises:
        ValueError: the lengths do not add up to the tokens.

    Source: STILL report, Figure 6(a).

    >>> found = by_relative_position([2.0, 0.0, 0.0, 1.0], [4], bins=2)
    >>> found.groups, [m.value for m in found.means]
    ((0.25, 0.75), [1.0, 0.5])
    """
    known_R = lengths_of(lengths_R, len(np.asarray(values_T)))
    middles = [(i + 0.5) / bins for i in range(bins)]
    return means_by_group(values_T, relative_bins(known_R, bins, starts_R), owners(known_R), middles)


class Spread(NamedTuple):
    """The distribution of token values.

    Attributes:
        quantiles: by their level.
        threshold: the smallest value among the highest (forking) tokens, those at or above it.
        carried: their share of all entropy; ties at the threshold count only up to ``share``. NaN if all entropy is 0.
    """

    quantiles: dict[float, float]
    threshold: float
    carried: float


def spread(
    values_T: ArrayLike,
    levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.8, 0.95, 0.99),
    share: float = 0.2,
) -> Spread:
    """Quantiles (nats), and the entropy share of the highest ``share`` of tokens. NaN is excluded; without values all
    is NaN.

    Source: the highest 20 % as forking tokens, Wang et al. 2025, arXiv 2506.01939.

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
