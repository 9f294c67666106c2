"""The contract of a token selection: tokens of an optimizer batch that are treated differently. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.arrays import Floats
from outrider.needs import NOTHING, Needs
from outrider.options import Options
from outrider.record.row import WeightedRow


class Selected(NamedTuple):
    """The decisions of a selection about each token of a row; None where it makes none.

    Attributes:
        keeps_N: bool, whether a token keeps its policy gradient.
        penalties_N: coefficient of its distance from the policy that sampled.
    """

    keeps_N: NDArray[np.bool_] | None = None
    penalties_N: Floats | None = None


class Selection(Options):
    r"""Which tokens of an optimizer batch are treated differently. Fields are the recipe's options.

    Chosen over all rows of the optimizer batch, on all ranks, before it is split, so micro-batches, the order of rows
    and the number of processes do not matter. It uses what is known before the forward pass: advantages, recorded
    entropies, and old log-probabilities (the sampler's, or with ``objective.correction`` the learner's). In the first
    update of a step these are the policy's own; in later ones they are as old as the samples. All tokens that equal the
    threshold are chosen. Denominators do not change. Of :math:`N` trainable tokens of rows with a weight above 0, a
    share means :math:`\max(1, \lfloor \mathrm{share}\, N \rfloor)`.
    """

    leaves_out: ClassVar[bool] = False
    """Whether single tokens lose their policy gradient: ``keeps_N`` is given."""
    penalises: ClassVar[bool] = False
    """Whether single tokens are held near the policy that sampled them: ``penalties_N`` is given."""
    requires: ClassVar[Needs] = NOTHING
    """``entropies``, where it needs that of every token as it was drawn."""

    def select(self, rows: Sequence[WeightedRow]) -> list[Selected]:
        """One result per row; ``rows`` are those of an optimizer batch with a weight above 0 and a trainable token.

        Raises:
            UserError: it needs what the sampler does not record.
        """
        raise NotImplementedError


def selected(selection: Selection | None, rows: Sequence[WeightedRow]) -> list[Selected]:
    """One result per row, also without a selection, or without any trainable token."""
    if selection is None or not any(row.trainable_N.any() for row in rows):
        return [Selected()] * len(rows)
    return selection.select(rows)


def trainable(rows: Sequence[WeightedRow], values: Sequence[NDArray[np.floating]]) -> Floats:
    """The values of all trainable tokens, end to end; ``values`` holds one array of own tokens per row."""
    return np.concatenate([v[row.trainable_N] for row, v in zip(rows, values, strict=True)]).astype(np.float64)


def least_of_highest(values: Floats, share: float) -> float:
    """The smallest of the highest ``share`` of values, at least one value.

    >>> least_of_highest(np.array([3.0, 1.0, 2.0, 4.0]), 0.5)
    3.0
    """
    chosen = max(1, math.floor(share * len(values) + 1e-9))  # 0.29 * 100 is a little below 29 in floating point
    return float(np.partition(values, len(values) - chosen)[len(values) - chosen])


def covariances(rows: Sequence[WeightedRow]) -> list[Floats]:
    r"""The covariance of log-probability and advantage of every own token, 0 where not trainable.

    .. math:: \mathrm{cov}_t = (\log\pi_\mathrm{old}(y_t) - \overline{\log\pi_\mathrm{old}}) (A_t - \bar A)

    with means over all trainable tokens. Those of high covariance are the ones whose update costs the most entropy.

    Source: arXiv 2505.22617, Eq. 10.
    """
    # centred over all tokens of the batch, so the covariance of a token depends on the rows beside it
    mean_logprob = _mean(trainable(rows, [row.old_logprobs_N for row in rows]))
    mean_advantage = _mean(trainable(rows, [row.advantages_N for row in rows]))
    return [
        np.where(row.trainable_N, (row.old_logprobs_N - mean_logprob) * (row.advantages_N - mean_advantage), 0.0)
        for row in rows
    ]


def _mean(values: Floats) -> float:
    # Exact where all are equal: a rounded mean would give tiny covariances, and the highest of them would be chosen.
    # fsum is correctly rounded, so the order of rows does not matter.
    return float(values[0]) if (values == values[0]).all() else math.fsum(values) / len(values)
