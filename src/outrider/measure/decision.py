"""Compares the pass@1 of two models: whether the difference is significant, how few problems this result depends on,
and how many problems or samples are needed to detect the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.bootstrap import Interval, bootstrap_mean
from outrider.measure.evaluation import pass_values
from outrider.measure.tally import Tally

ERROR = 0.05  # significance level of all tests, and false discovery rate of the per-problem tests
POWER = 0.8  # statistical power for which sample sizes are computed
_BOTH = 1.959964 + 0.841621  # sum of the standard normal quantiles of 1 - ERROR / 2 and of POWER


@dataclass(frozen=True, slots=True)
class Decision:
    """The difference in pass@1 between two models on their common problems, after minus before.

    Attributes:
        difference: the paired difference with its bootstrap interval, over problems for which both models have verified
            samples.
        won, lost, tied: numbers of problems on which the second model's pass rate is higher (won), lower (lost) or
            equal (tied).
        clearly_won, clearly_lost: numbers of problems on which the second model's pass rate is significantly higher
            (clearly won) or significantly lower (clearly lost).
        decisive: smallest number of problems whose removal makes the interval of ``difference`` include 0; None if the
            interval already includes 0.
        needed_problems, needed_samples: how many problems (:func:`problems_needed`), or how many samples per problem
            (:func:`samples_needed`), are needed to detect a difference of this size. The two numbers are None if the
            interval already excludes 0, or if no number would be enough.
    """

    difference: Interval
    won: int
    lost: int
    tied: int
    clearly_won: int
    clearly_lost: int
    decisive: int | None
    needed_problems: int | None
    needed_samples: int | None


def decide(pairs: Sequence[tuple[Tally, Tally]], resamples: int = 2000, seed: int = 0) -> Decision:
    """Compare the pass@1 of two models, given a pair of counts (before, after) for each problem.

    Pairs in which one model has no verified sample are excluded. ``resamples`` and ``seed`` are passed to
    :func:`bootstrap_mean`. The function imports scipy.

    Degenerate cases: if there are no pairs, the numbers of won, lost and tied problems are 0, and ``difference`` is
    NaN.
    """
    known = [(b, a) for b, a in pairs if b.scorable and a.scorable]
    changes_P = differences(known, 1)
    difference = bootstrap_mean(changes_P, resamples, seed)
    clear_P = distinguishable(known)
    # integers are compared, since as floats two equal rates from different numbers of samples can differ in the last
    # bits
    sign_P = np.array([np.sign(a.successes * b.scorable - b.successes * a.scorable) for b, a in known])
    undecided = not difference.excludes_zero
    return Decision(
        difference=difference,
        won=int((sign_P > 0).sum()),
        lost=int((sign_P < 0).sum()),
        tied=int((sign_P == 0).sum()),
        clearly_won=int((clear_P & (sign_P > 0)).sum()),
        clearly_lost=int((clear_P & (sign_P < 0)).sum()),
        decisive=None if undecided else decisive_problems(changes_P, resamples, seed),
        needed_problems=problems_needed(changes_P) if undecided else None,
        needed_samples=samples_needed(known) if undecided else None,
    )


def differences(pairs: Sequence[tuple[Tally, Tally]], k: int) -> Floats:
    """Return the difference in pass@k (after minus before) for each pair; NaN if either model has fewer than ``k``
    verified samples.
    """
    before, after = [b for b, _ in pairs], [a for _, a in pairs]
    return np.asarray(pass_values(after, k) - pass_values(before, k))


def decisive_problems(changes_P: ArrayLike, resamples: int = 2000, seed: int = 0) -> int | None:
    """Return the smallest number of problems whose removal makes the interval of the mean change include 0.

    The problems that changed most in the direction of the mean are removed first, since these problems affect the mean
    most. :func:`bootstrap_mean` computes the interval. If the result is small, the difference depends on few problems
    and could disappear on a slightly different set of problems.

    Degenerate cases: the result is None if the interval over all problems includes 0, or if there is no such interval.
    If fewer than two problems remain after the removal, no interval can be computed; such a case counts as an interval
    that includes 0. NaN values are excluded.

    Source: Broderick, Giordano and Meager 2020, arXiv 2011.14999: the smallest share of the data whose removal makes a
    result insignificant. The paper uses an approximation to find the data to remove; for a mean, these data are known
    exactly.

    >>> decisive_problems([0.5] * 9 + [0.0] * 11), decisive_problems([0.5, -0.5] * 10)
    (6, None)
    """
    known_P = np.asarray(changes_P, dtype=np.float64)
    known_P = known_P[~np.isnan(known_P)]
    if not bootstrap_mean(known_P, resamples, seed).excludes_zero:
        return None
    largest_P = np.sort(known_P * np.sign(known_P.mean()))[::-1]

    def decided(without: int) -> bool:
        return bootstrap_mean(largest_P[without:], resamples, seed).low > 0

    count = _without_by_normal(largest_P)
    while decided(count):
        count += 1
    while count > 1 and not decided(count - 1):
        count -= 1
    return count


def _without_by_normal(largest_P: Floats) -> int:
    """Return how many of the largest values must be removed until the interval of the mean of the remaining values
    includes 0. ``largest_P`` is in descending order, and the interval is a normal approximation.
    """
    left_P = np.arange(len(largest_P), 0, -1)
    sums_P, squares_P = (np.cumsum(values_P[::-1])[::-1] for values_P in (largest_P, largest_P**2))
    means_P = sums_P / left_P
    spread_P = np.sqrt(np.maximum(squares_P / left_P - means_P**2, 0.0) / left_P)
    undecided_P = means_P - 1.959964 * spread_P <= 0
    return max(1, int(np.argmax(undecided_P)) if undecided_P.any() else len(largest_P) - 1)


def distinguishable(pairs: Sequence[tuple[Tally, Tally]]) -> np.ndarray:
    """Return, for each problem, whether the pass rates of the two models differ significantly.

    The test is Fisher's exact test for each problem, two-sided, with a false discovery rate of ``ERROR`` (Benjamini and
    Hochberg 1995). With few samples per problem, hardly any difference is significant. For example, 4 of 4 successes
    versus 0 of 4 give a p-value of 0.03, before the correction for multiple tests. The function imports scipy.
    """
    if not pairs:
        return np.zeros(0, np.bool_)
    from scipy.stats import false_discovery_control  # type: ignore[import-untyped]  # the import takes half a second

    p_P = [_fisher(b.successes, b.scorable, a.successes, a.scorable) for b, a in pairs]
    return np.asarray(false_discovery_control(p_P) < ERROR)


@lru_cache(maxsize=100_000)
def _fisher(before: int, of_before: int, after: int, of_after: int) -> float:
    """Return Fisher's exact p-value of a two-by-two table. The p-value is cached, since many problems have equal
    counts."""
    from scipy.stats import fisher_exact

    return float(fisher_exact([[before, of_before - before], [after, of_after - after]])[1])


def problems_needed(changes_P: ArrayLike) -> int | None:
    r"""Return the number of problems needed to detect the observed mean change with a power of 80 %.

    .. math:: N = (z_{0.975} + z_{0.8})^2 \, s^2 / \bar d^2

    with the mean :math:`\bar d` and the variance :math:`s^2` of the paired changes. The formula assumes that the true
    mean change equals the observed one, although the true change may be smaller or 0. The formula also assumes that
    further problems resemble these problems and have the same number of samples.

    Degenerate cases: the result is None if the mean change is 0 or there are fewer than two problems. NaN values are
    excluded.

    Source: paired power analysis, Miller 2024, arXiv 2411.00640.

    >>> problems_needed([0.1, 0.3, -0.1, 0.1])
    21
    """
    known_P = np.asarray(changes_P, dtype=np.float64)
    known_P = known_P[~np.isnan(known_P)]
    if len(known_P) < 2 or not known_P.mean():
        return None
    return math.ceil(_BOTH**2 * float(known_P.var(ddof=1)) / float(known_P.mean()) ** 2)


def samples_needed(pairs: Sequence[tuple[Tally, Tally]]) -> int | None:
    r"""Return the number of samples per problem and model needed to detect the mean change with a power of 80 %.

    The variance of the changes is the variance between problems plus the sampling variance. Only the sampling variance
    decreases with more samples. The sampling variance is estimated by the mean over problems of :math:`\hat p (1 - \hat
    p) / (n - 1)`, added up for the two models. The function makes the assumptions of :func:`problems_needed`, and
    assumes that all problems have similar numbers of samples.

    Degenerate cases: the result is None if the variance between problems is too large for any number of samples, or if
    the mean change is 0. The result is also None if fewer than two problems have at least two samples of each model,
    since the two variances then cannot be estimated.

    Source: variance decomposition, Miller 2024, arXiv 2411.00640.
    """
    known = [(b, a) for b, a in pairs if min(b.scorable, a.scorable) > 1]
    if len(known) < 2:
        return None
    changes_P = differences(known, 1)
    sampling = float(np.mean([_variance(b) + _variance(a) for b, a in known]))
    between = max(0.0, float(changes_P.var(ddof=1)) - sampling)
    allowed = len(known) * float(changes_P.mean()) ** 2 / _BOTH**2
    if allowed <= between:
        return None
    drawn = float(np.mean([min(b.scorable, a.scorable) for b, a in known]))
    return math.ceil(drawn * sampling / (allowed - between))


def _variance(tally: Tally) -> float:
    """Return an unbiased estimate of the sampling variance of a problem's pass rate."""
    rate = tally.successes / tally.scorable
    return rate * (1 - rate) / (tally.scorable - 1)


def paired_p(changes_P: ArrayLike) -> float:
    """Return the two-sided p-value of Student's t-test of the null hypothesis that the mean change is 0. The p-value is
    never below the smallest possible p-value of a sign-flip test.

    With ``n`` non-zero changes, this minimum is ``2^(1 - n)``. The minimum is needed because a few problems with equal
    changes are weak evidence, although the variance of their changes is 0. The function imports scipy.

    Degenerate cases: the p-value is 1 if no problem changed, and NaN for fewer than two problems. NaN values are
    excluded.

    >>> paired_p([0.25, 0.25]), paired_p([0.0, 0.0]), round(paired_p([0.1, 0.3, -0.1, 0.1, 0.2, 0.0]), 3)
    (0.5, 1.0, 0.144)
    """
    from scipy.special import stdtr  # type: ignore[import-untyped]

    known_P = np.asarray(changes_P, dtype=np.float64)
    known_P = known_P[~np.isnan(known_P)]
    if len(known_P) < 2:
        return math.nan
    changed = int(np.count_nonzero(known_P))
    if not changed:
        return 1.0
    error = float(known_P.std(ddof=1)) / math.sqrt(len(known_P))
    t = abs(float(known_P.mean())) / error if error else math.inf
    return max(2 * float(stdtr(len(known_P) - 1, -t)), 2.0 ** (1 - changed))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values. With at least 95 % probability, no true null hypothesis has an adjusted p-value
    below 0.05.

    Degenerate cases: NaN stays NaN and does not count as a test.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    >>> holm([0.01, 0.04, 0.03, float("nan")])
    [0.03, 0.06, 0.06, nan]
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[i] = largest
    return adjusted
