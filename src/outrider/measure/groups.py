"""Computes means over groups of tokens, such as the mean entropy by position, with bootstrap intervals over responses
or problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Flags, Floats, Ints
from outrider.measure.bootstrap import middle

_CHUNK = 4_000_000  # maximum number of drawn indices in memory at once (32 MB)

Label = str | float


class Mean(NamedTuple):
    """A mean over tokens with its confidence interval.

    Attributes:
        value: mean in which all tokens have equal weights; NaN if there are no tokens.
        low, high: ends of the interval; NaN if no interval was computed.
        n: number of averaged values, one per token.
        responses: number of responses from which the tokens come.
    """

    value: float
    low: float
    high: float
    n: int
    responses: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0; False if there is no interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Means of a quantity, one for each group of tokens.

    Attributes:
        groups: name of each group; for bins of a numeric quantity, such as entropy, the bin's midpoint.
        means: one mean per group.
        excluded: number of tokens that are NaN or belong to no group.
        owners_R: sorted ids of the responses with a token in any group.
        sums_RK, counts_RK: sum of the values, and number of tokens, for each response and group.
        draws_BK: mean of each group in each resample; NaN if a resample has no token of the group.
        clusters_K: number of resampled clusters (responses or problems) in each group.
    """

    groups: tuple[Label, ...]
    means: tuple[Mean, ...]
    excluded: int
    owners_R: Ints
    sums_RK: Floats
    counts_RK: Floats
    draws_BK: Floats
    clusters_K: tuple[int, ...]

    def __getitem__(self, group: Label) -> Mean:
        return self.means[self.groups.index(group)]

    def difference(self, first: Label, second: Label) -> Mean:
        """Return the mean of ``second`` minus the mean of ``first``, with its interval. The result's ``n`` is the
        minimum of the two groups' numbers of tokens, and ``responses`` is the minimum of their numbers of responses.

        Both means use the same resamples, so the interval is valid whether or not responses have tokens in both groups.
        """
        a, b = self.groups.index(first), self.groups.index(second)
        one, other = self.means[a], self.means[b]
        clusters = min(self.clusters_K[a], self.clusters_K[b])
        low, high = ends(self.draws_BK[:, b] - self.draws_BK[:, a], clusters)
        return Mean(other.value - one.value, low, high, min(one.n, other.n), min(one.responses, other.responses))

    def over_problems(self, problems_R: ArrayLike, resamples: int = 1000, seed: int = 0) -> Profile:
        r"""Return the same means, with percentile intervals from a bootstrap over problems.

        Each resample draws *problems* with replacement, as many as there are, and includes all tokens of the drawn
        problems:

        .. math:: \bar v^{(b)}_k = \frac{\sum_p w^{(b)}_p \sum_{t \in p, k} v_t}{\sum_p w^{(b)}_p\, n_{p,k}}

        where :math:`w^{(b)}_p` is the number of times that problem p was drawn. Responses to one problem are
        correlated, and tokens of one response are correlated even more strongly. Resampling responses or tokens would
        therefore give intervals that are far too narrow.

        ``problems_R`` has one entry per response id: ``problems_R[i]`` is an integer id for the problem of the response
        with id ``i``.

        Degenerate cases: a group with tokens from fewer than two problems has no interval (NaN). If a resample contains
        none of a group's problems, the resample is ignored for this group. The intervals do not account for the seed of
        a training run.

        Source: cluster bootstrap, Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8.

        >>> found = means_by_group([1.0, 3.0, 5.0], [0, 0, 0], [0, 1, 2], ["all"])
        >>> found.over_problems([7, 7, 8]).clusters_K, found.over_problems([7, 7, 7])["all"].low
        ((2,), nan)
        """
        names, of_R = np.unique(np.asarray(problems_R)[self.owners_R], return_inverse=True)
        sums_CK, counts_CK = (np.zeros((len(names), len(self.groups))) for _ in range(2))
        np.add.at(sums_CK, of_R, self.sums_RK)
        np.add.at(counts_CK, of_R, self.counts_RK)
        return self._resampled(sums_CK, counts_CK, resamples, seed)

    def over_responses(self, resamples: int = 1000, seed: int = 0) -> Profile:
        """Return the same means, with intervals from a bootstrap over responses.

        The intervals are valid if all responses are to different problems; otherwise the intervals are too narrow.
        """
        return self._resampled(self.sums_RK, self.counts_RK, resamples, seed)

    def _resampled(self, sums_CK: Floats, counts_CK: Floats, resamples: int, seed: int) -> Profile:
        """Return the same means, with bootstrap intervals. The arguments have the sum of the values and the number of
        tokens, for each cluster (such as a problem) and group.
        """
        # a resample only changes the weights of the clusters' sums, so the token values are not needed
        draws = [(w_bC @ sums_CK, w_bC @ counts_CK) for w_bC in weights(len(sums_CK), resamples, seed)]
        draws_BK = np.concatenate([ratio(s, c) for s, c in draws]) if draws else np.empty((0, len(self.groups)))
        clusters = tuple((counts_CK > 0).sum(0).tolist())
        means = []
        for k, mean in enumerate(self.means):
            low, high = ends(draws_BK[:, k], clusters[k])
            means.append(mean._replace(low=low, high=high))
        return replace(self, means=tuple(means), draws_BK=draws_BK, clusters_K=clusters)


def means_by_group(values_T: ArrayLike, groups_T: ArrayLike, owners_T: ArrayLike, labels: Sequence[Label]) -> Profile:
    """Return the mean value per group, without intervals. :meth:`Profile.over_problems` adds intervals.

    Args:
        values_T: one value per token; NaN values are excluded and counted.
        groups_T: group of each token, as an index into ``labels``; tokens with a negative index are excluded and
            counted.
        owners_T: integer id of each token's response.
        labels: names of the groups.

    Degenerate cases: the mean of a group without values is NaN, with n = 0.

    Raises:
        ValueError: the arrays differ in length, or a group index is not below the number of labels.

    >>> found = means_by_group([1.0, 3.0, 5.0, 9.0], [0, 0, 1, 1], [0, 0, 0, 1], ["early", "late"])
    >>> found["late"].value, found["late"].responses, found.difference("early", "late").value
    (7.0, 2, 5.0)
    """
    all_T, group_T = np.asarray(values_T, dtype=np.float64), np.asarray(groups_T, dtype=np.int64)
    owner_T = np.asarray(owners_T)
    if not len(all_T) == len(group_T) == len(owner_T):
        raise ValueError(
            f"values, groups and owners must have equal lengths, not {len(all_T)}, {len(group_T)} and {len(owner_T)}"
        )
    if (group_T >= len(labels)).any():
        raise ValueError(f"group {group_T.max()} has no label among {len(labels)}")
    kept_T: Flags = ~np.isnan(all_T) & (group_T >= 0)
    sums_RK, counts_RK = totals(all_T[kept_T], group_T[kept_T], owner_T[kept_T], len(labels))
    values_K, tokens_K = ratio(sums_RK.sum(0), counts_RK.sum(0)), counts_RK.sum(0)
    responses_K = (counts_RK > 0).sum(0)
    means = tuple(
        Mean(value, np.nan, np.nan, int(tokens), int(responses))
        for value, tokens, responses in zip(values_K.tolist(), tokens_K, responses_K, strict=True)
    )
    return Profile(
        groups=tuple(labels),
        means=means,
        excluded=int((~kept_T).sum()),
        owners_R=np.unique(owner_T[kept_T]).astype(np.int64),
        sums_RK=sums_RK,
        counts_RK=counts_RK,
        draws_BK=np.empty((0, len(labels))),
        clusters_K=tuple(responses_K.tolist()),
    )


def weights(responses: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each resample drew each response, in chunks of shape ``[resamples in the chunk, responses]``.

    >>> [w.sum(axis=1).tolist() for w in weights(3, 2, seed=0)]
    [[3.0, 3.0]]
    """
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // max(responses, 1))
    for start in range(0, resamples if responses else 0, rows):
        some = min(rows, resamples - start)
        # each resample has a separate range of integers, so that one bincount counts all resamples
        drawn_bR = generator.integers(responses, size=(some, responses)) + responses * np.arange(some)[:, None]
        drawn = np.bincount(drawn_bR.ravel(), minlength=some * responses)
        yield drawn.reshape(some, responses).astype(np.float64)


def ends(draws_B: Floats, responses: int) -> tuple[float, float]:
    """Return the ends of the interval that contains the middle 95 % of the draws; NaN for fewer than two responses."""
    return middle(draws_B) if responses > 1 else (np.nan, np.nan)


def totals(values_T: Floats, groups_T: Ints, owners_T: Ints, groups: int) -> tuple[Floats, Floats]:
    """Return sums and counts of values, each of shape ``[responses, groups]``, with responses sorted by id.

    >>> totals(np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([7, 7, 3]), groups=2)[0].tolist()
    [[0.0, 5.0], [3.0, 0.0]]
    """
    names, owner_T = np.unique(owners_T, return_inverse=True)
    # each pair of response and group has one index, so that sums and counts need one bincount each
    cell_T, shape = owner_T * groups + groups_T, (len(names), groups)
    sums: Floats = np.bincount(cell_T, weights=values_T, minlength=len(names) * groups).astype(np.float64)
    counts = np.bincount(cell_T, minlength=len(names) * groups).astype(np.float64)
    return sums.reshape(shape), counts.reshape(shape)


def ratio(sums: Floats, counts: Floats) -> Floats:
    """Return means from sums and counts; NaN where the count is 0.

    >>> ratio(np.array([3.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [1.5, nan]
    """
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
