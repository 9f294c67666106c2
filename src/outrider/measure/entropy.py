"""How uncertain the policy was: token entropies by position, size, outcome and category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats, Ints
from outrider.measure.groups import Label, Profile, means_by_group
from outrider.measure.ragged import (
    highest,
    lengths_of,
    owners,
    positions,
    relative_bins,
)


@dataclass(frozen=True, slots=True, eq=False)
class Entropies:
    r"""Entropies of the tokens of many responses, and whether they are entropies at all.

    *Exact* values are :math:`H_t = -\sum_v \pi(v \mid s_t) \log \pi(v \mid s_t)` in nats, of the full distribution.
    Where only log-probabilities of the sampled tokens exist, :math:`-\log \pi(y_t \mid s_t)` stands in (the
    *surprisal*). Its mean over tokens drawn from that very distribution (temperature 1, nothing cut off) is the mean
    entropy; a single value is not an entropy. So quantiles, shares above a bound and the highest tokens describe
    surprisal, and a group that depends on the token drawn (its category, its outcome, and through the length its
    relative position) has a mean that is biased as an estimate of its entropy. ``name`` says which it is, everywhere.

    Attributes:
        values_T, lengths_R: see :mod:`outrider.measure.ragged`; NaN where unknown.
        is_exact: False for surprisal.
        starts_R: own tokens' offset in the whole response, for branches.

    Source: STILL report, arXiv 2508.07534, Eq. 3.

    >>> Entropies.exact([0.7, 0.1, 0.3], [2, 1]).name, Entropies.estimated([-0.5, -2.0], [2]).values_T.tolist()
    ('entropy', [0.5, 2.0])
    """

    values_T: Floats
    lengths_R: Ints
    is_exact: bool
    starts_R: Ints

    @staticmethod
    def exact(entropies_T: ArrayLike, lengths_R: ArrayLike, starts_R: ArrayLike = 0) -> Entropies:
        """From entropies of full distributions, in nats.

        Raises:
            ValueError: the lengths do not add up to the tokens.
        """
        return _entropies(np.asarray(entropies_T, dtype=np.float64), lengths_R, starts_R, True)

    @staticmethod
    def estimated(logprobs_T: ArrayLike, lengths_R: ArrayLike, starts_R: ArrayLike = 0) -> Entropies:
        """From log-probabilities of the sampled tokens: their surprisal.

        Raises:
            ValueError: the lengths do not add up to the tokens.
        """
        return _entropies(-np.asarray(logprobs_T, dtype=np.float64), lengths_R, starts_R, False)

    @property
    def name(self) -> str:
        """What the values are called on every axis."""
        return "entropy" if self.is_exact else "surprisal of sampled tokens (estimates entropy)"


def by_relative_position(entropies: Entropies, bins: int = 20, resamples: int = 1000, seed: int = 0) -> Profile:
    """Mean per equal part of the response: the U shape. Groups are the middles of the parts, in (0, 1).

    Every token has the same weight, so long responses count for more. See :func:`relative_bins` for short responses
    and branches, :func:`means_by_group` for intervals.

    Source: STILL report, Figure 6(a).

    >>> found = by_relative_position(Entropies.exact([2.0, 0.0, 0.0, 1.0], [4]), bins=2)
    >>> found.groups, [m.value for m in found.means]
    ((0.25, 0.75), [1.0, 0.5])
    """
    groups_T = relative_bins(entropies.lengths_R, bins, entropies.starts_R)
    middles = [(i + 0.5) / bins for i in range(bins)]
    return _profile(entropies, groups_T, middles, "relative position", resamples, seed)


def by_position(entropies: Entropies, width: int = 16, resamples: int = 1000, seed: int = 0) -> Profile:
    """Mean per ``width`` tokens from the beginning. Groups are the middles; late ones stand on long responses only.

    Raises:
        ValueError: ``width < 1``.

    >>> found = by_position(Entropies.exact([2.0, 0.0, 3.0], [2, 1]), width=1)
    >>> found.groups, [m.value for m in found.means], [m.responses for m in found.means]
    ((0.0, 1.0), [2.5, 0.0], [2, 1])
    """
    if width < 1:
        raise ValueError(f"positions are taken at least one at a time, not {width}")
    groups_T = positions(entropies.lengths_R, entropies.starts_R) // width
    middles = [i * width + (width - 1) / 2 for i in range(int(groups_T.max(initial=-1)) + 1)]
    return _profile(entropies, groups_T, middles, "position", resamples, seed)


class Spread(NamedTuple):
    """How unequal tokens are.

    Attributes:
        name: of the values.
        quantiles: by their level.
        above: share of the tokens above each bound.
        threshold: the smallest value among the highest tokens, those at or above it: forking tokens.
        carried: share of all entropy that these have; equals at the threshold counted only up to ``share``. NaN if
            all entropy is 0.
        tokens, left_out: known values, and NaN.
    """

    name: str
    quantiles: dict[float, float]
    above: dict[float, float]
    threshold: float
    carried: float
    tokens: int
    left_out: int


def spread(
    entropies: Entropies,
    levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.8, 0.95, 0.99),
    bounds: Sequence[float] = (0.1, 0.5, 1.0, 2.0),
    share: float = 0.2,
) -> Spread:
    """Quantiles, shares above bounds (nats), and what the highest ``share`` of tokens carries.

    Degenerate cases: without known values all numbers are NaN.

    Source: the highest 20 % as forking tokens, Wang et al. 2025, arXiv 2506.01939.

    >>> found = spread(Entropies.exact([0.0, 0.0, 0.0, 1.0, 3.0], [5]), levels=[0.5], bounds=[0.5], share=0.2)
    >>> found.quantiles, found.above, found.threshold, found.carried
    ({0.5: 0.0}, {0.5: 0.4}, 3.0, 0.75)
    """
    known_T = np.sort(entropies.values_T[~np.isnan(entropies.values_T)])
    tokens, left_out = len(known_T), int(np.isnan(entropies.values_T).sum())
    if not tokens:
        unknown = dict.fromkeys(levels, np.nan), dict.fromkeys(bounds, np.nan)
        return Spread(entropies.name, *unknown, np.nan, np.nan, 0, left_out)
    threshold = float(known_T[highest(known_T, share)].min())
    chosen = max(1, int(share * tokens + 1e-9))
    total = known_T.sum()
    return Spread(
        name=entropies.name,
        quantiles={x: float(np.quantile(known_T, x)) for x in levels},
        above={x: float((known_T > x).mean()) for x in bounds},
        threshold=threshold,
        carried=float(known_T[-chosen:].sum() / total) if total > 0 else np.nan,
        tokens=tokens,
        left_out=left_out,
    )


def _profile(
    entropies: Entropies, groups_T: Ints, labels: Sequence[Label], by: str, resamples: int, seed: int
) -> Profile:
    owners_T = owners(entropies.lengths_R)
    return means_by_group(entropies.values_T, groups_T, owners_T, labels, entropies.name, by, resamples, seed)


def _entropies(values_T: Floats, lengths_R: ArrayLike, starts_R: ArrayLike, is_exact: bool) -> Entropies:
    known_R = lengths_of(lengths_R, len(values_T))
    starts = np.broadcast_to(np.asarray(starts_R, dtype=np.int64), known_R.shape)
    return Entropies(values_T, known_R, is_exact, starts)
