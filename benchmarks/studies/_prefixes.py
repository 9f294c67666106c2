"""Whether a failed chain can still be saved, and how that depends on how far it has gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from outrider.arrays import Floats, Ints
from outrider.measure.bootstrap import Interval, middle

BINS = 10
LEAST = 20  # prefixes that a bin needs to say something


class Prefixes(NamedTuple):
    """Prefixes of failed chains, each continued some times. Prefixes of one chain are not independent.

    Attributes:
        chain_N: the failed chain, any integers.
        depth_N: length of the prefix over that of the whole chain, between 0 and 1.
        samples_N: continuations of the prefix that could be verified.
        successes_N: those that succeeded. A prefix with one is *recoverable*, which more samples make likelier: compare
            at equal ``samples_N``.
    """

    chain_N: Ints
    depth_N: Floats
    samples_N: Ints
    successes_N: Ints

    @property
    def recovered_N(self) -> NDArray[np.bool_]:
        return self.successes_N > 0

    def of(self, rows: NDArray[Any]) -> Prefixes:
        """Some of the prefixes, by index or by flags."""
        return Prefixes(*(column[rows] for column in self))


class Depth(NamedTuple):
    """The prefixes of one bin of depth, ``low < depth <= high`` (the first bin holds depth 0 too).

    Attributes:
        low, high: ends of the bin.
        prefixes, chains: how many it holds, and of how many chains.
        depth: their mean depth; NaN without prefixes, as the rest is.
        share: recoverable ones; ``share_low`` to ``share_high`` is its Wilson interval, prefixes taken as independent.
        error: standard error of ``share`` with chains as units: what the interval forgets.
        rate: successes among all continuations.
    """

    low: float
    high: float
    prefixes: int
    chains: int
    depth: float
    share: float
    share_low: float
    share_high: float
    error: float
    rate: float


def by_depth(prefixes: Prefixes, bins: int = BINS) -> list[Depth]:
    """Recoverability by depth, in bins of equal width, shallow first.

    Prefixes without a verified continuation are excluded.

    Raises:
        ValueError: a depth outside of [0, 1].

    Source: DEEP-GRPO, arXiv 2602.14169, appendix C.2.

    >>> cuts = Prefixes(np.array([0, 0, 1, 1]), np.array([0.2, 0.9, 0.5, 1.0]), np.full(4, 8), np.array([3, 0, 1, 0]))
    >>> [(row.prefixes, row.share, row.rate) for row in by_depth(cuts, bins=2)]
    [(2, 1.0, 0.25), (2, 0.0, 0.0)]
    """
    if not ((prefixes.depth_N >= 0) & (prefixes.depth_N <= 1)).all():
        raise ValueError("relative depths lie between 0 and 1")
    edges = np.arange(bins + 1) / bins
    bin_N = np.maximum(np.searchsorted(edges, prefixes.depth_N, side="left") - 1, 0)
    verified_N = prefixes.samples_N > 0
    return [_depth(float(edges[b]), float(edges[b + 1]), prefixes.of((bin_N == b) & verified_N)) for b in range(bins)]


def _depth(low: float, high: float, inside: Prefixes) -> Depth:
    hit_N, count = inside.recovered_N, len(inside.depth_N)
    if not count:
        return Depth(low, high, 0, 0, *[np.nan] * 6)
    wilson = binomtest(int(hit_N.sum()), count).proportion_ci(method="wilson")
    chains, of_chain_N = np.unique(inside.chain_N, return_inverse=True)
    residues = np.bincount(of_chain_N, hit_N - hit_N.mean())
    return Depth(
        low,
        high,
        count,
        len(chains),
        float(inside.depth_N.mean()),
        float(hit_N.mean()),
        float(wilson.low),
        float(wilson.high),
        float(np.sqrt((residues**2).sum()) / count),
        float(inside.successes_N.sum() / inside.samples_N.sum()),
    )


class Relation(NamedTuple):
    r"""How depth and recoverability go together; NaN where a number is undefined.

    Attributes:
        spearman_of_bins: rank correlation of mean depth and share over the bins that hold at least ``LEAST`` (20)
            prefixes. Means hide the scatter: it is near 1 in absolute value for any steady trend.
        spearman_of_prefixes: rank correlation of depth and successes over prefixes.
        w, b: logistic fit :math:`\sigma(w\,\text{depth} + b)` of recoverable or not.
        auc: chance that a recoverable prefix is the shallower one of a random pair of both kinds, ties half; below
            1/2 if deeper ones are saved more often.
    """

    spearman_of_bins: float
    spearman_of_prefixes: float
    w: float
    b: float
    auc: float


def relation(prefixes: Prefixes, bins: int = BINS) -> Relation:
    """Rank correlations, logistic fit and AUC of depth against recoverability.

    The fit is scikit-learn's ``LogisticRegression`` with its defaults (L2, C = 1), as the utility selector's, so that
    both say the same of the same prefixes; with thousands of them the penalty hardly shows. Undefined (NaN): the
    correlations where either side is constant, fit and AUC where all prefixes are alike.

    Source: DEEP-GRPO, arXiv 2602.14169, appendix C.2 (bins -0.79, w -2.60, AUC 0.68).

    >>> depth = np.repeat([0.25, 0.75], 40)
    >>> saved = np.concatenate([np.arange(40) % 2, np.arange(40) % 10 == 0]).astype(int)
    >>> found = relation(Prefixes(np.arange(80), depth, np.full(80, 8), saved))
    >>> round(found.spearman_of_bins, 3), round(found.auc, 3), bool(found.w < 0)
    (-1.0, 0.738, True)
    """
    verified = prefixes.of(prefixes.samples_N > 0)
    told = [row for row in by_depth(verified, bins) if row.prefixes >= LEAST]
    return Relation(
        _spearman([row.depth for row in told], [row.share for row in told]),
        _spearman(verified.depth_N, verified.successes_N),
        *_separation(verified),
    )


class Resampled(NamedTuple):
    """The numbers of :class:`Relation` with intervals from resampling chains.

    Attributes:
        numbers: each under its name; ``problems`` of an interval is the number of chains.
        z_of_w: ``w`` over its standard deviation among the draws.
        undefined: draws in which some number was undefined; it is excluded from that number's interval.
    """

    numbers: dict[str, Interval]
    z_of_w: float
    undefined: int


def resampled(prefixes: Prefixes, resamples: int = 200, seed: int = 0) -> Resampled:
    """:func:`relation` with percentile intervals: chains are drawn with replacement, with all of their prefixes.

    Drawing prefixes instead would take them as independent and make every interval too narrow. One logistic fit per
    draw: a second for 200 draws of 3,000 prefixes. Degenerate cases: no intervals (NaN) for fewer than two chains.

    >>> cuts = Prefixes(np.array([0]), np.array([0.5]), np.array([8]), np.array([1]))
    >>> resampled(cuts).numbers["auc"]
    Interval(value=nan, low=nan, high=nan, problems=1)
    """
    chains, of_chain_N = np.unique(prefixes.chain_N, return_inverse=True)
    value = relation(prefixes)
    if len(chains) < 2 or not resamples:
        return Resampled(
            {name: Interval(v, np.nan, np.nan, len(chains)) for name, v in value._asdict().items()}, np.nan, 0
        )
    rows_of = [np.flatnonzero(of_chain_N == chain) for chain in range(len(chains))]
    picks = np.random.default_rng(seed).integers(len(chains), size=(resamples, len(chains)))
    draws_BS = np.array([relation(prefixes.of(np.concatenate([rows_of[c] for c in pick]))) for pick in picks])
    numbers = {}
    for (name, v), draws_B in zip(value._asdict().items(), draws_BS.T, strict=True):
        numbers[name] = Interval(v, *middle(draws_B), len(chains))
    w_B = draws_BS[:, Relation._fields.index("w")]
    w_B = w_B[~np.isnan(w_B)]
    z = value.w / w_B.std(ddof=1) if len(w_B) > 1 and w_B.std() else np.nan
    return Resampled(numbers, float(z), int(np.isnan(draws_BS).any(axis=1).sum()))


def _spearman(x: Sequence[float] | NDArray[Any], y: Sequence[float] | NDArray[Any]) -> float:
    return float(spearmanr(x, y).statistic) if min(len({*x}), len({*y})) > 1 else np.nan


def _separation(prefixes: Prefixes) -> tuple[float, float, float]:
    """Logistic fit, and AUC."""
    hit_N = prefixes.recovered_N
    if hit_N.all() or not hit_N.any():
        return np.nan, np.nan, np.nan
    fit = LogisticRegression().fit(prefixes.depth_N[:, None], hit_N)
    return float(fit.coef_[0, 0]), float(fit.intercept_[0]), float(roc_auc_score(hit_N, -prefixes.depth_N))
