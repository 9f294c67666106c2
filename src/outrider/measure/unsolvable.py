"""Finds the problems that k rollouts do not solve. Also compares the unsolved problems of several models, and estimates
how many problems are unsolved by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats, Ints
from outrider.errors import UserError
from outrider.measure.passk import pass_at_k

MODELS = (2, 4)  # minimum and maximum number of models for a readable Venn diagram


@dataclass(frozen=True, slots=True)
class Unsolved:
    """The problems of one model, split by whether ``k`` rollouts solve them.

    Attributes:
        k: a problem without a success counts as unsolved after ``k`` failed rollouts.
        unsolved: problems with ``k`` or more verified rollouts and no success.
        solved: problems with a success, regardless of the number of rollouts.
        undecided: problems with fewer than ``k`` verified rollouts and no success.
    """

    k: int
    unsolved: frozenset[str]
    solved: frozenset[str]
    undecided: frozenset[str]


def unsolved(problems: Sequence[str], n: ArrayLike, c: ArrayLike, k: int) -> Unsolved:
    """Split the problems of one model into solved, unsolved and undecided problems.

    For each problem, ``n`` is the number of verified rollouts and ``c`` the number of successes, as in
    :func:`pass_at_k`. All rollouts count, even if there are more than ``k``, and a problem with at least one success is
    solved. Therefore, compare only models with equal numbers of rollouts.

    Raises:
        ValueError: two problems share an id, or :func:`pass_at_k` rejects the counts.

    Source: STILL, arXiv 2508.07534, section 2.1.

    >>> found = unsolved(["a", "b", "c"], n=[8, 8, 4], c=[0, 2, 0], k=8)
    >>> sorted(found.unsolved), sorted(found.solved), sorted(found.undecided)
    (['a'], ['b'], ['c'])
    """
    shape = pass_at_k(n, c, k).shape  # checks the counts
    n_P, c_P = (np.broadcast_to(np.asarray(counts), shape) for counts in (n, c))
    if len(set(problems)) < len(problems):
        raise ValueError("two problems share an id")
    rows = list(zip(problems, n_P.tolist(), c_P.tolist(), strict=True))
    return Unsolved(
        k=k,
        unsolved=frozenset(p for p, samples, hits in rows if samples >= k and not hits),
        solved=frozenset(p for p, _, hits in rows if hits),
        undecided=frozenset(p for p, samples, hits in rows if samples < k and not hits),
    )


@dataclass(frozen=True, slots=True)
class Overlap:
    """The unsolved problems of several models, split into disjoint regions of a Venn diagram.

    Attributes:
        models: names of the models, in the given order.
        regions: for every combination of models, the problems that exactly these models do not solve. Every combination
            has an entry, with names in the order of ``models``; larger combinations come later.
        solved_by_all: problems that every model solves.
        excluded: problems that belong to no region, because at least one model has too few rollouts, or none, for the
            problem.
    """

    models: tuple[str, ...]
    regions: Mapping[tuple[str, ...], frozenset[str]]
    solved_by_all: frozenset[str]
    excluded: frozenset[str]

    @property
    def sizes(self) -> dict[tuple[str, ...], int]:
        """Number of problems in each region, which a Venn diagram shows as numbers and an UpSet plot as bars."""
        return {models: len(problems) for models, problems in self.regions.items()}


def overlap(results: Mapping[str, Unsolved]) -> Overlap:
    """Return the problems that each combination of models leaves unsolved.

    Only problems that are solved or unsolved (not undecided) for every model are compared. All other problems are
    ``excluded``.

    Raises:
        UserError: the number of models is not 2, 3 or 4, or the models have different values of ``k``.

    Source: the Venn diagram in the STILL report, arXiv 2508.07534, Figure 1c.

    >>> ids = ["a", "b", "c"]
    >>> found = overlap({"base": unsolved(ids, 8, [0, 0, 1], 8), "rl": unsolved(ids, 8, [0, 3, 0], 8)})
    >>> found.sizes
    {('base',): 1, ('rl',): 1, ('base', 'rl'): 1}
    >>> sorted(found.regions["base", "rl"])
    ['a']
    """
    models = tuple(results)
    if not MODELS[0] <= len(models) <= MODELS[1]:
        raise UserError(f"unsolved problems are compared for {MODELS[0]} to {MODELS[1]} models, not {len(models)}")
    if len(ks := {result.k for result in results.values()}) > 1:
        raise UserError(f"unsolved problems of different k ({', '.join(map(str, sorted(ks)))}) cannot be compared")
    decided = frozenset.intersection(*(r.unsolved | r.solved for r in results.values()))
    tried = frozenset().union(*(r.unsolved | r.solved | r.undecided for r in results.values()))
    failing = {p: tuple(m for m in models if p in results[m].unsolved) for p in decided}
    regions = {
        chosen: frozenset(p for p, failed in failing.items() if failed == chosen)
        for size in range(1, len(models) + 1)
        for chosen in combinations(models, size)
    }
    return Overlap(models, regions, frozenset(p for p, failed in failing.items() if not failed), tried - decided)


def pass_rate_bound(k: ArrayLike, alpha: float = 0.05) -> Floats:
    r"""Return the upper confidence bound on the pass rate of a problem that ``k`` rollouts did not solve.

    .. math:: 1 - \alpha^{1/k}

    This is the pass rate at which ``k`` failures in a row have probability :math:`\alpha`, and the one-sided
    Clopper-Pearson bound for 0 successes in ``k`` rollouts, at confidence :math:`1 - \alpha`. The bound is about 3/k at
    :math:`\alpha = 0.05`, and 1 for ``k = 0``. The bound is valid for one problem chosen in advance. Among many
    problems, some are unsolved by chance; :class:`PassRates` estimates how many.

    Raises:
        ValueError: ``k`` is negative, or :math:`\alpha` is not between 0 and 1.

    Source: Clopper and Pearson 1934, Biometrika 26.

    >>> pass_rate_bound([0, 1, 8, 640]).round(4).tolist()
    [1.0, 0.95, 0.3123, 0.0047]
    """
    k_P = np.asarray(k, dtype=np.float64)
    if (k_P < 0).any() or not 0 < alpha < 1:
        raise ValueError(f"a bound needs k >= 0 and alpha between 0 and 1, not {k!r} and {alpha}")
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(np.log(alpha) / k_P))


@dataclass(frozen=True, slots=True)
class PassRates:
    r"""The distribution of pass rates over problems: the Beta(a, b) distribution that :func:`fit_pass_rates` fits.

    Attributes:
        a, b: shape parameters; NaN if the fit is not possible.
        problems: number of problems in the fit.

    >>> rates = PassRates(a=1.0, b=1.0, problems=100)  # uniform: 1/(k + 1) of the problems fail k times
    >>> round(rates.unlucky([9] * 10, more=10), 4)
    5.0
    """

    a: float
    b: float
    problems: int

    def unlucky(self, samples: ArrayLike, more: int) -> float:
        r"""Return the expected number of unsolved problems that ``more`` additional rollouts per problem would solve.

        .. math:: \sum_P \Big[ 1 - \prod_{i=k_P}^{k_P + m - 1} \frac{b + i}{a + b + i} \Big]

        ``samples`` has the number :math:`k_P` of rollouts of each unsolved problem, all of which failed. After
        :math:`k` failures, the distribution of a problem's pass rate is Beta(a, b + k). Under a beta distribution, no
        pass rate is exactly 0, so for a large ``more`` the result approaches the number of unsolved problems. To check
        the result, sample ``more`` rollouts of each problem.
        """
        samples_P = np.asarray(samples, dtype=np.int64)
        log_M = self._log_missed(int(samples_P.max(initial=0)) + more)
        return float(-np.expm1(log_M[samples_P + more] - log_M[samples_P]).sum())

    def _log_missed(self, most: int) -> Floats:
        """Return the log-probabilities of 0, 1, … ``most`` failures in a row."""
        i = np.arange(most)
        return np.concatenate([[0.0], np.cumsum(np.log((self.b + i) / (self.a + self.b + i)))])


def fit_pass_rates(n: ArrayLike, c: ArrayLike) -> PassRates:
    r"""Fit a Beta(a, b) distribution to the pass rates of problems. The fit maximises the beta-binomial likelihood of
    the problems' counts.

    .. math:: \ell(a, b) = \sum_P \Big[ \sum_{i<c_P} \ln(a + i) + \sum_{i<n_P-c_P} \ln(b + i)
              - \sum_{i<n_P} \ln(a + b + i) \Big]

    The observed rate of every unsolved problem is 0, but the fit assigns higher rates to some of these problems. If
    many problems have a rate of 0.05, some problems with 0 successes in 8 rollouts have this rate as well. A beta
    distribution plus a share of impossible problems would be more realistic. However, with few rollouts this share
    cannot be distinguished from a small ``a``. Therefore, :meth:`PassRates.unlucky` is biased upwards if impossible
    problems exist. The fit assumes that problems are exchangeable; if they are not, fit each difficulty level
    separately.

    ``a`` and ``b`` are limited to the range from 1e-3 to 1e4. If the best fit is at a limit, for example because all
    rates are equal, no error is raised. The function imports scipy.

    Degenerate cases: the parameters are NaN if no rollout succeeded or no rollout failed. The parameters are also NaN
    if no problem has two rollouts, since the variation of rates then cannot be observed. Problems without rollouts are
    excluded.

    Raises:
        ValueError: :func:`pass_at_k` rejects the counts.

    Source: Skellam 1948, Journal of the Royal Statistical Society B 10 (beta-binomial).

    >>> fit = fit_pass_rates(n=[8] * 9, c=range(9))  # all counts are equally frequent, as under Beta(1, 1)
    >>> round(fit.a, 2), round(fit.b, 2), fit.problems
    (1.0, 1.0, 9)
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # slow: a quarter of a second

    pass_at_k(n, c, 1)  # checks the counts
    n_P, c_P = np.broadcast_arrays(np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64))
    n_P, c_P = n_P[n_P > 0], c_P[n_P > 0]
    if not 0 < c_P.sum() < n_P.sum() or n_P.max() < 2:
        return PassRates(np.nan, np.nan, len(n_P))
    i = np.arange(n_P.max())
    # terms are grouped by i, so the cost grows with the maximum number of rollouts per problem, not with their total
    # number
    won_I, lost_I, all_I = (_longer_than(i, counts_P) for counts_P in (c_P, n_P - c_P, n_P))

    def loss(logs: Floats) -> tuple[float, Floats]:
        # the logarithms are optimised, so that both parameters stay positive
        a, b = np.exp(logs)
        value = won_I @ np.log(a + i) + lost_I @ np.log(b + i) - all_I @ np.log(a + b + i)
        rest = all_I @ (1 / (a + b + i))
        return -value, -np.array([a * (won_I @ (1 / (a + i)) - rest), b * (lost_I @ (1 / (b + i)) - rest)])

    ends = (np.log(1e-3), np.log(1e4))
    mean = c_P.sum() / n_P.sum()
    result = minimize(loss, np.log([mean, 1 - mean]), jac=True, bounds=[ends, ends], options={"gtol": 1e-9})
    a, b = np.exp(result.x)
    return PassRates(float(a), float(b), len(n_P))


def _longer_than(i: Ints, counts_P: Ints) -> Ints:
    """Return how many counts exceed each ``i``."""
    return len(counts_P) - np.searchsorted(np.sort(counts_P), i, side="right")
