"""Statistics of how token probabilities change between two checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.groups import Label, Profile, ends, means_by_group, ratio
from outrider.measure.ragged import highest, lengths_of, outcome_groups, owners

LARGE = 0.06
"""Threshold for a large change in probability. In the plateau stage of the STILL report, over 99 % of tokens changed by
less."""


class Moved(NamedTuple):
    """Summary of the changes in probability for a set of tokens.

    Attributes:
        tokens: number of tokens.
        risen, fallen: the sum of all positive changes (risen), and the sum of all negative changes (fallen, at most 0).
        size: mean absolute change; NaN if there are no tokens.
        beyond: share of the tokens whose probability changed by more than :data:`LARGE`; NaN if there are no tokens.
        excluded: number of tokens with a NaN change.
    """

    tokens: int
    risen: float
    fallen: float
    size: float
    beyond: float
    excluded: int


class Correlation(NamedTuple):
    """A rank correlation with its interval; values are NaN if they are undefined. ``excluded`` is the number of
    responses that were excluded because a value is NaN.
    """

    value: float
    low: float
    high: float
    responses: int
    excluded: int


def moved(changes_T: ArrayLike, lengths_R: ArrayLike, success_R: ArrayLike) -> dict[str, Moved]:
    """Summarise the changes in probability in ``"incorrect"``, ``"correct"`` and ``"all"`` responses.

    RLVR raises the probabilities of tokens in correct responses, and lowers the probabilities of tokens in incorrect
    responses. Responses that could not be verified (NaN) count only in ``"all"``.

    Raises:
        ValueError: the sum of the lengths is not the number of tokens.

    Source: STILL report, arXiv 2508.07534, section 3.2.2 and Figure 4(a).

    >>> found = moved([0.1, -0.02, -0.3], [2, 1], [1.0, 0.0])
    >>> found["correct"].risen, found["correct"].fallen, found["incorrect"].beyond
    (0.1, -0.02, 1.0)
    """
    change_T = np.asarray(changes_T, dtype=np.float64)
    outcome_T = np.repeat(outcome_groups(success_R), lengths_of(lengths_R, len(change_T)))
    return {
        "incorrect": _moved(change_T[outcome_T == 0]),
        "correct": _moved(change_T[outcome_T == 1]),
        "all": _moved(change_T),
    }


def largest_by_group(
    changes_T: ArrayLike,
    lengths_R: ArrayLike,
    groups_T: ArrayLike,
    labels: Sequence[Label],
    share: float = 0.2,
) -> Profile:
    """Return the share of each group's tokens that belong to the most changed tokens. The most changed tokens are the
    ``share`` of all tokens with the largest absolute values in ``changes_T``.

    For a random group, the expected value is ``share``; a larger value means that training changes the probabilities in
    this group more than in others. Ties are handled as in :func:`highest`. Bootstrap intervals of the result treat the
    choice of the most changed tokens as fixed.

    Source: STILL report, arXiv 2508.07534, Figure 5(a) (groups by perplexity) and section 3.2.2 (groups by category).

    >>> found = largest_by_group([0.4, 0.0, -0.3, 0.0], [2, 2], [0, 1, 0, 1], ["formal", "other"], share=0.5)
    >>> found["formal"].value, found["other"].value
    (1.0, 0.0)
    """
    sizes_T = np.abs(np.asarray(changes_T, dtype=np.float64))
    chosen_T = np.where(np.isnan(sizes_T), np.nan, highest(sizes_T, share))
    owners_T = owners(lengths_of(lengths_R, len(sizes_T)))
    return means_by_group(chosen_T, groups_T, owners_T, labels)


def perplexities(logprobs_T: ArrayLike, lengths_R: ArrayLike) -> Floats:
    r"""Return each response's perplexity, :math:`\exp(-\frac1L \sum_t \log \pi(y_t))`; NaN for a response without
    tokens or with a NaN.

    >>> perplexities(np.log([0.5, 0.5, 0.1]), [2, 0, 1]).round(3).tolist()
    [2.0, nan, 10.0]
    """
    return np.exp(-_response_means(np.asarray(logprobs_T, dtype=np.float64), lengths_R))


def perplexity_against_change(
    perplexities_R: ArrayLike,
    changes_T: ArrayLike,
    lengths_R: ArrayLike,
    resamples: int = 1000,
    problems_R: ArrayLike | None = None,
) -> Correlation:
    """Return the rank correlation over responses between perplexity and mean absolute change in token probability.

    If the correlation is negative, responses with low perplexity changed more. The correlation is partly an artefact: a
    token's probability p can rise by at most 1 - p, so probabilities in a response with perplexity near 1 cannot rise
    much. See :func:`rank_correlation` for the interval.

    Source: STILL report, arXiv 2508.07534, section 3.2.3. The report does not compute this correlation.

    >>> perplexity_against_change([1.1, 2.0, 3.0], [0.3, 0.2, 0.1], [1, 1, 1], resamples=0).value
    -1.0
    """
    sizes_R = _response_means(np.abs(np.asarray(changes_T, dtype=np.float64)), lengths_R)
    return rank_correlation(perplexities_R, sizes_R, resamples, problems_R=problems_R)


def rank_correlation(
    x_R: ArrayLike,
    y_R: ArrayLike,
    resamples: int = 1000,
    seed: int = 0,
    problems_R: ArrayLike | None = None,
) -> Correlation:
    """Return Spearman's rank correlation, with mean ranks for ties, and with a bootstrap interval over responses.

    Responses to one problem are correlated, so problems are resampled instead if ``problems_R`` (the problem of each
    response) is given. Ranks are recomputed in every resample.

    Degenerate cases: pairs with a NaN value are excluded and counted. The result is NaN for fewer than three pairs, or
    if x or y is constant. Resamples in which x or y is constant are excluded. The function imports scipy.

    Raises:
        ValueError: ``x_R`` and ``y_R`` differ in length.

    >>> rank_correlation([1, 2, 3, 4], [10, 20, 20, 40], resamples=0).value.__round__(4)
    0.9487
    """
    from scipy.stats import ConstantInputWarning, spearmanr  # type: ignore[import-untyped]  # slow: half a second

    x, y = np.asarray(x_R, dtype=np.float64), np.asarray(y_R, dtype=np.float64)
    if x.shape != y.shape:
        raise ValueError(f"both sides must have equally many values, not {len(x)} and {len(y)}")
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    _, of_R = np.unique(np.arange(len(known)) if problems_R is None else np.asarray(problems_R), return_inverse=True)
    members = np.split(np.argsort(of_R[known], kind="stable"), np.cumsum(np.bincount(of_R[known]))[:-1])
    members = [at for at in members if len(at)]
    generator = np.random.default_rng(seed)
    drawn = (generator.integers(len(members), size=len(members)) for _ in range(resamples if len(x) > 2 else 0))
    picked = (np.concatenate([members[i] for i in some]) for some in drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)  # for constant input the correlation is NaN
        # spearmanr computes the ranks again for every resample, in which a problem may occur several times
        draws_B = np.array([spearmanr(x[at], y[at]).statistic for at in picked], dtype=np.float64)
        value = float(spearmanr(x, y).statistic) if len(x) > 2 else np.nan
    low, high = ends(draws_B, len(members))
    return Correlation(value, low, high, len(x), int((~known).sum()))


def _response_means(values_T: Floats, lengths_R: ArrayLike) -> Floats:
    known_R = lengths_of(lengths_R, len(values_T))
    sums_R = np.bincount(owners(known_R), weights=values_T, minlength=len(known_R))
    return ratio(sums_R.astype(np.float64), known_R.astype(np.float64))


def _moved(changes_T: Floats) -> Moved:
    known_T = changes_T[~np.isnan(changes_T)]
    some = len(known_T) > 0
    return Moved(
        tokens=len(known_T),
        risen=float(known_T[known_T > 0].sum()),
        fallen=float(known_T[known_T < 0].sum()),
        size=float(np.abs(known_T).mean()) if some else np.nan,
        beyond=float((np.abs(known_T) > LARGE).mean()) if some else np.nan,
        excluded=len(changes_T) - len(known_T),
    )
