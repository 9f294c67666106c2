"""Where an entropy drop comes from: incorrect responses, correct ones, or more correct ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outrider.arrays import Floats
from outrider.measure.groups import Mean, ends, ratio, totals, weights
from outrider.measure.ragged import outcome_groups, owners


class Side(NamedTuple):
    """Entropies of the tokens of some responses, with the length and the success of each; NaN where unknown."""

    values_T: Floats
    lengths_R: ArrayLike
    success_R: ArrayLike


class Drop(NamedTuple):
    """Every number is *before less after*, so a drop is positive.

    Attributes:
        incorrect, correct: the drop within the responses of that outcome.
        overall: the drop over all tokens; the three parts below add up to it.
        from_incorrect, from_correct: the two drops, each times its share of the tokens (mean of before and after).
        from_mix: what comes from another share of the tokens being those of correct responses.
        excluded: tokens, of both steps, that are NaN or of an unscorable response.
    """

    incorrect: Mean
    correct: Mean
    overall: Mean
    from_incorrect: Mean
    from_correct: Mean
    from_mix: Mean
    excluded: int


def entropy_drop(before: Side, after: Side, resamples: int = 1000, seed: int = 0) -> Drop:
    r"""The drop from one step to another, split by incorrect (-) and correct (+) responses.

    With :math:`H_\pm` the mean and :math:`w_\pm` the share of the tokens of that outcome, a bar for the mean of before
    and after, and :math:`\Delta` for before less after, three parts add up exactly:

    .. math:: \Delta H = \bar w_- \Delta H_- + \bar w_+ \Delta H_+ + \Delta w_- (\bar H_- - \bar H_+)

    because :math:`\Delta w_+ = -\Delta w_-`. The last part is no change within either kind: incorrect responses tend
    to be more uncertain, and there are fewer of them. Intervals by resampling the responses of both steps, each step
    on its own; every token has the same weight.

    Degenerate cases: where a step has no token of an outcome, all but ``overall`` and the drop of the other outcome
    are NaN. ``n`` and ``responses`` are those of the smaller step; no interval from fewer than two responses.

    Source: STILL report, arXiv 2508.07534, section 3.2.2 and Figure 3(c), which plots :math:`H_\pm`. The exact split
    of the whole drop is ours.

    >>> before = Side(np.array([2.0, 1.0]), [1, 1], [0, 1])
    >>> after = Side(np.array([1.0, 1.0, 1.0, 0.25]), [1, 1, 1, 1], [0, 1, 1, 1])
    >>> drop = entropy_drop(before, after, resamples=0)
    >>> drop.incorrect.value, drop.correct.value, drop.overall.value
    (1.0, 0.25, 0.6875)
    >>> drop.from_incorrect.value, drop.from_correct.value, drop.from_mix.value
    (0.375, 0.15625, 0.15625)
    """
    sides = [_cells(before), _cells(after)]
    values = _parts(*((sums.sum(0), counts.sum(0)) for sums, counts in sides))
    draws = _parts(*(_drawn(*side, resamples, seed + i) for i, side in enumerate(sides)))
    tokens = [counts.sum(0) for _, counts in sides]
    members = [(counts > 0).sum(0) for _, counts in sides]

    def mean(part: str) -> Mean:
        kinds = {"incorrect": [0], "correct": [1]}.get(part, [0, 1])
        n, responses = (min(int(side[kinds].sum()) for side in size) for size in (tokens, members))
        low, high = ends(draws[part], responses)
        return Mean(float(values[part]), low, high, n, responses)

    parts = {part: mean(part) for part in values}
    excluded = len(before.values_T) + len(after.values_T) - int(sum(side.sum() for side in tokens))
    return Drop(excluded=excluded, **parts)


def _cells(side: Side) -> tuple[Floats, Floats]:
    """Sums and counts per response and outcome."""
    groups_T = np.repeat(outcome_groups(side.success_R), np.asarray(side.lengths_R))
    kept_T = ~np.isnan(side.values_T) & (groups_T >= 0)
    return totals(side.values_T[kept_T], groups_T[kept_T], owners(side.lengths_R)[kept_T], 2)


def _drawn(sums_R2: Floats, counts_R2: Floats, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Sums and counts of every resample."""
    drawn = [(w_bR @ sums_R2, w_bR @ counts_R2) for w_bR in weights(len(sums_R2), resamples, seed)]
    if not drawn:
        return np.zeros((resamples, 2)), np.zeros((resamples, 2))
    return np.concatenate([s for s, _ in drawn]), np.concatenate([c for _, c in drawn])


def _parts(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> dict[str, Floats]:
    """All numbers of a :class:`Drop` from sums and counts ``[…, 2]`` of the two steps."""
    (means_b, shares_b, overall_b), (means_a, shares_a, overall_a) = _step(*before), _step(*after)
    drops, middle = means_b - means_a, (means_b + means_a) / 2
    parts = (shares_b + shares_a) / 2 * drops
    return {
        "incorrect": drops[..., 0],
        "correct": drops[..., 1],
        "overall": overall_b - overall_a,
        "from_incorrect": parts[..., 0],
        "from_correct": parts[..., 1],
        "from_mix": (shares_b - shares_a)[..., 0] * (middle[..., 0] - middle[..., 1]),
    }


def _step(sums: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Means and shares of the two outcomes, and the mean of all tokens."""
    tokens = counts.sum(-1)
    return ratio(sums, counts), ratio(counts, np.stack([tokens, tokens], -1)), ratio(sums.sum(-1), tokens)
