"""How clear a comparison of two models is: problems won and lost, decisive problems, and required sample sizes."""

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
POWER = 0.8  # power of the tests in the required sample sizes
_BOTH = 1.959964 + 0.841621  # standard normal quantiles of 1 - ERROR / 2 and of POWER


@dataclass(frozen=True, slots=True)
class Decision:
    """The difference in pass@1 of two models on their common problems, after minus before.

    Attributes:
        difference: the paired difference with its bootstrap interval, over problems with verified samples of both
            models.
        won, lost, tied: number of problems with a higher, lower or equal pass rate in the second model.
        clearly_won, clearly_lost: number of problems with a significantly higher or lower pass rate.
        decisive: number of decisive problems (:func:`decisive_problems`); None if the interval includes 0.
        needed_problems, needed_samples: numbers needed for a significant difference (:func:`problems_needed`,
            :func:`samples_needed`); None if the interval excludes 0, or if no number would be enough.
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
    """Compare the pass@1 of two models from pairs of counts, before and after; options as in :func:`bootstrap_mean`.

    Pairs in which one side has no verified sample are excluded. Imports scipy.

    Degenerate cases: without pairs all counts are 0 and ``difference`` is NaN.
    """
    known = [(b, a) for b, a in pairs if b.scorable and a.scorable]
    changes_P = differences(known, 1)
    difference = bootstrap_mean(changes_P, resamples, seed)
    clear_P = distinguishable(known)
    # compared as integers: equal rates from different numbers of samples can differ in their last bits
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
    """pass@k after minus before, per pair; NaN if either side has fewer than ``k`` verified samples."""
    before, after = [b for b, _ in pairs], [a for _, a in pairs]
    return np.asarray(pass_values(after, k) - pass_values(before, k))


def decisive_problems(changes_P: ArrayLike, resamples: int = 2000, seed: int = 0) -> int | None:
    """The smallest number of problems whose removal makes the interval of the mean change include 0.

    Problems with the largest changes in the direction of the mean are removed first, since they move the mean most. The
    interval comes from :func:`bootstrap_mean`; the search starts at the count at which a normal interval would include
    0. If the number is small, the difference depends on few problems and could disappear on a slightly different set.

    Degenerate cases: None if the interval over all problems includes 0 or does not exist. During removal, fewer than
    two remaining problems have no interval, which counts as including 0. NaN values are excluded.

    Source: Broderick, Giordano and Meager 2020, arXiv 2011.14999: the smallest share of the data whose removal makes a
    result insignificant. The paper approximates which data to remove; for a mean they are known exactly.

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
    """The smallest number of removed values at which a normal interval of the remaining mean includes 0."""
    left_P = np.arange(len(largest_P), 0, -1)
    sums_P, squares_P = (np.cumsum(values_P[::-1])[::-1] for values_P in (largest_P, largest_P**2))
    means_P = sums_P / left_P
    spread_P = np.sqrt(np.maximum(squares_P / left_P - means_P**2, 0.0) / left_P)
    undecided_P = means_P - 1.959964 * spread_P <= 0
    return max(1, int(np.argmax(undecided_P)) if undecided_P.any() else len(largest_P) - 1)


def distinguishable(pairs: Sequence[tuple[Tally, Tally]]) -> np.ndarray:
    """Whether the two pass rates of each problem differ significantly.

    Fisher's exact test per problem, two-sided, with a false discovery rate of ``ERROR`` (Benjamini and Hochberg 1995).
    With few samples per problem, hardly any difference is significant: 4 of 4 against 0 of 4 has a p-value of 0.03,
    before the correction for multiple tests. Imports scipy.
    """
    if not pairs:
        return np.zeros(0, np.bool_)
    from scipy.stats import false_discovery_control  # type: ignore[import-untyped]  # takes half a second

    p_P = [_fisher(b.successes, b.scorable, a.successes, a.scorable) for b, a in pairs]
    return np.asarray(false_discovery_control(p_P) < ERROR)


@lru_cache(maxsize=100_000)
def _fisher(before: int, of_before: int, after: int, of_after: int) -> float:
    """Fisher's exact p-value of a two-by-two table, cached since many problems have equal counts."""
    from scipy.stats import fisher_exact

    return float(fisher_exact([[before, of_before - before], [after, of_after - after]])[1])


def problems_needed(changes_P: ArrayLike) -> int | None:
    r"""The number of problems needed to detect the observed mean change with a power of 80 %.

    .. math:: N = (z_{0.975} + z_{0.8})^2 \, s^2 / \bar d^2

    with the mean :math:`\bar d` and the variance :math:`s^2` of the paired changes. Assumptions: the true difference
    equals the observed one (it may be smaller or 0), and more problems would be like these, with the same number of
    samples.

    Degenerate cases: None if the mean change is 0 or there are fewer than two problems. NaN values are excluded.

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
    r"""The number of samples per problem and model needed to detect the mean change with a power of 80 %.

    The variance of the changes is the variance between problems plus the sampling variance. Only the sampling variance
    decreases with more samples: it is the mean of :math:`\hat p (1 - \hat p) / (n - 1)` over problems, summed over both
    models. Assumptions as in :func:`problems_needed`; in addition, all problems have a similar number of samples.

    Degenerate cases: None if the variance between problems is too large for any number of samples, or if the mean
    change is 0. Also None if fewer than two problems have two samples of both models, since the two variances are then
    not identified.

    Source: decomposition of the variance, Miller 2024, arXiv 2411.00640.
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
    """Unbiased sampling variance of a problem's pass rate."""
    rate = tally.successes / tally.scorable
    return rate * (1 - rate) / (tally.scorable - 1)


def paired_p(changes_P: ArrayLike) -> float:
    """Two-sided p-value for a mean change of 0: Student's t-test, bounded below by the sign-flip test.

    With ``n`` non-zero changes, the p-value is at least ``2^(1 - n)``: a few problems with equal changes are weak
    evidence, although their variance is 0. Imports scipy.

    Degenerate cases: 1 if no problem changed; NaN for fewer than two problems. NaN values are excluded.

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
    """Holm-adjusted p-values: the probability that any true null hypothesis gets a value below 0.05 is at most 5 %.

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
