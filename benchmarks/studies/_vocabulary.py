"""Which entries of the vocabulary lost entropy fastest, and in which responses they occur."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats, Ints
from outrider.measure.ragged import outcome_groups


class TokenChange(NamedTuple):
    """What became of one entry of the vocabulary.

    Attributes:
        token: its id.
        before, after: the quantity in the two sets of rollouts.
        change: after less before.
        n_before, n_after: how often it occurs in each.
    """

    token: int
    before: float
    after: float
    change: float
    n_before: int
    n_after: int


class Ranking(NamedTuple):
    """Entries of the vocabulary, the most changed first; ``excluded`` is how many different ones were too rare."""

    tokens: tuple[TokenChange, ...]
    excluded: int


def entropy_drops(
    before_ids_T: ArrayLike,
    before_entropies_T: ArrayLike,
    after_ids_T: ArrayLike,
    after_entropies_T: ArrayLike,
    at_least: int = 10,
) -> Ranking:
    """Every entry's mean entropy at the positions where it was generated, before and after; the fastest drop first.

    An entry needs ``at_least`` known occurrences on both sides: the means of rare ones are noise, and the extremes of
    many noisy means are all noise. Ties by id. NaN entropies are not counted as occurrences.

    Raises:
        ValueError: ids and entropies differ in length.

    Source: STILL report, arXiv 2508.07534, Figure 3(b), which does not define how often a token must occur.

    >>> found = entropy_drops([5, 5, 6], [2.0, 1.0, 1.0], [5, 6, 7], [0.5, 1.0, 0.0], at_least=1)
    >>> [(t.token, t.change) for t in found.tokens], found.excluded
    ([(5, -1.0), (6, 0.0)], 1)
    """
    before, after = _means(before_ids_T, before_entropies_T), _means(after_ids_T, after_entropies_T)
    both = [token for token in before if token in after]
    kept = [token for token in both if min(before[token][1], after[token][1]) >= at_least]
    changed = [
        TokenChange(token, b, a, a - b, n_before, n_after)
        for token, (b, n_before), (a, n_after) in ((t, before[t], after[t]) for t in kept)
    ]
    ordered = sorted(changed, key=lambda t: (t.change, t.token))
    return Ranking(tuple(ordered), len(before.keys() | after.keys()) - len(kept))


def where_they_occur(tokens: ArrayLike, ids_T: ArrayLike, success_T: ArrayLike) -> dict[str, int]:
    """How many of some entries occur in incorrect responses only, in correct ones only, in both, or in neither.

    ``success_T`` repeats a response's success for each of its tokens (``np.repeat(success_R, lengths_R)``); NaN, an
    unscorable response, is neither.

    Source: STILL report, arXiv 2508.07534, Figure 3(c): where the fastest entropy drops are.

    >>> where_they_occur([5, 6, 7, 8], [5, 6, 6, 7], [0, 0, 1, 1])
    {'incorrect only': 1, 'correct only': 1, 'both': 1, 'neither': 1}
    """
    asked, ids = np.unique(np.asarray(tokens, dtype=np.int64)), np.asarray(ids_T, dtype=np.int64)
    outcomes_T = outcome_groups(success_T)
    wrong, right = (np.isin(asked, ids[outcomes_T == outcome]) for outcome in (0, 1))
    kinds = {
        "incorrect only": wrong & ~right,
        "correct only": right & ~wrong,
        "both": wrong & right,
        "neither": ~wrong & ~right,
    }
    return {name: int(found.sum()) for name, found in kinds.items()}


def _means(ids_T: ArrayLike, values_T: ArrayLike) -> dict[int, tuple[float, int]]:
    """Mean and number of the known values of every id."""
    ids: Ints = np.asarray(ids_T, dtype=np.int64)
    values: Floats = np.asarray(values_T, dtype=np.float64)
    if ids.shape != values.shape:
        raise ValueError(f"{len(ids)} token ids and {len(values)} entropies do not belong together")
    known = ~np.isnan(values)
    names, kind, counts = np.unique(ids[known], return_inverse=True, return_counts=True)
    means = np.bincount(kind, weights=values[known], minlength=len(names)) / np.maximum(counts, 1)
    return dict(zip(names.tolist(), zip(means.tolist(), counts.tolist(), strict=True), strict=True))
