"""Interface of a token selection, which gives some tokens of an optimizer batch a different loss. Uses only NumPy."""

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
    """A selection's decisions for each token of a row. A field is None if the selection does not use it.

    Attributes:
        keeps_N: bool, whether a token keeps its policy gradient.
        penalties_N: coefficient of the penalty on each token's distance from the sampling policy.
    """

    keeps_N: NDArray[np.bool_] | None = None
    penalties_N: Floats | None = None


class Selection(Options):
    r"""A rule that selects tokens of an optimizer batch, and excludes or penalises them. Fields are the recipe's
    options.

    Tokens are chosen from all rows of the optimizer batch, across all ranks, before the batch is split. So the choice
    does not depend on micro-batches, the order of rows or the number of processes. The choice depends on advantages,
    recorded entropies and old log-probabilities, which are known before the forward pass. Old log-probabilities come
    from the sampler or, with ``objective.correction``, from the learner. In the first update of a step, they belong to
    the current policy, and in later updates to an older policy. Tokens that tie with the last chosen token are chosen
    too. Excluded tokens still count in the loss's denominators. A share of the :math:`N` trainable tokens of rows with
    positive weight means :math:`\max(1, \lfloor \mathrm{share}\, N \rfloor)` tokens.
    """

    leaves_out: ClassVar[bool] = False
    """Whether the selection removes the policy gradient of individual tokens (``keeps_N``)."""
    penalises: ClassVar[bool] = False
    """Whether the selection penalises the distance from the sampling policy at individual tokens (``penalties_N``)."""
    requires: ClassVar[Needs] = NOTHING
    """``entropies`` if the selection needs the entropy of every token at sampling."""

    def select(self, rows: Sequence[WeightedRow]) -> list[Selected]:
        """Return one result per row. ``rows`` are those rows of an optimizer batch that have positive weight and at
        least one trainable token.

        Raises:
            UserError: the selection needs values that the sampler does not record.
        """
        raise NotImplementedError


def selected(selection: Selection | None, rows: Sequence[WeightedRow]) -> list[Selected]:
    """Return one result per row, even if there is no selection or no trainable token."""
    if selection is None or not any(row.trainable_N.any() for row in rows):
        return [Selected()] * len(rows)
    return selection.select(rows)


def trainable(rows: Sequence[WeightedRow], values: Sequence[NDArray[np.floating]]) -> Floats:
    """Concatenate the values of all trainable tokens; ``values`` has one array per row, with a value for each of
    ``token_ids``."""
    return np.concatenate([v[row.trainable_N] for row, v in zip(rows, values, strict=True)]).astype(np.float64)


def least_of_highest(values: Floats, share: float) -> float:
    """Return the lowest value among the highest ``share`` of values (at least one value).

    >>> least_of_highest(np.array([3.0, 1.0, 2.0, 4.0]), 0.5)
    3.0
    """
    chosen = max(1, math.floor(share * len(values) + 1e-9))  # 0.29 * 100 is a little below 29 in floating point
    return float(np.partition(values, len(values) - chosen)[len(values) - chosen])


def covariances(rows: Sequence[WeightedRow]) -> list[Floats]:
    r"""Return each token's contribution to the covariance of log-probability and advantage; 0 for tokens that are not
    trainable.

    .. math:: \mathrm{cov}_t = (\log\pi_\mathrm{old}(y_t) - \overline{\log\pi_\mathrm{old}}) (A_t - \bar A)

    Means are taken over all trainable tokens. Updates on tokens with high covariance lower the entropy the most.

    Source: arXiv 2505.22617, Eq. 10.
    """
    # centred over all tokens of the batch, so the covariance of a token depends on the other rows
    mean_logprob = _mean(trainable(rows, [row.old_logprobs_N for row in rows]))
    mean_advantage = _mean(trainable(rows, [row.advantages_N for row in rows]))
    return [
        np.where(row.trainable_N, (row.old_logprobs_N - mean_logprob) * (row.advantages_N - mean_advantage), 0.0)
        for row in rows
    ]


def _mean(values: Floats) -> float:
    # Equal values get an exact mean, because a rounded mean would give tiny covariances, of which the highest would be
    # chosen. fsum is correctly rounded, so the order of rows does not matter.
    return float(values[0]) if (values == values[0]).all() else math.fsum(values) / len(values)
