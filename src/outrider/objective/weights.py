"""Aggregation: computes the weight of each token's loss in the loss of the whole optimizer batch. Uses only NumPy.

Every denominator is computed in this module, over all rows of an optimizer batch on all ranks, before the batch is
split. The loss of a micro-batch is then a weighted sum, so the gradient does not depend on the split.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.arrays import Floats
from outrider.errors import UserError, nearest
from outrider.objective.options import ObjectiveOptions
from outrider.record.row import WeightedRow


def token_weights(rows: Sequence[WeightedRow], options: ObjectiveOptions, max_tokens: int) -> Floats:
    r"""Return, for each row, the weight that each of its trainable tokens has in the loss.

    A stream :math:`s` is the set of rows with the same ``stream``, such as ``main``, and has the weight
    :math:`\lambda_s`. Row :math:`i` has :math:`n_i` trainable tokens:

    * ``token_mean``: :math:`\lambda_s / \sum_{i \in s} n_i`
    * ``sequence_mean``: :math:`\lambda_s / (R_s\, n_i)`, with :math:`R_s` the number of rows with a trainable token
    * ``constant``: :math:`\lambda_s / (|s|\, L)`, with L = ``length`` or ``max_tokens``

    The fixed denominator of ``constant`` does not change the direction of the expected gradient. The denominators of
    ``token_mean`` and ``sequence_mean`` depend on response lengths, and thus on outcomes. With ``token_mean``, a token
    has less weight in a batch of long responses; with ``sequence_mean``, it has less weight in a long response.

    Denominators also count rows with zero advantage. With ``denominator: with_signal``, rows with zero advantage are
    not counted, and have weight 0 in every term of the loss.

    Raises:
        UserError: ``options.streams`` has no weight for the ``stream`` of a row.
    """
    tokens = np.array([row.trainable_N.sum() for row in rows], dtype=np.float64)
    streams = np.array([row.stream for row in rows])
    signal = options.aggregate.denominator == "with_signal"
    counted = np.array([row.has_signal for row in rows], np.bool_) if signal else np.ones(len(rows), np.bool_)
    weights = np.zeros(len(rows))
    for stream in dict.fromkeys(row.stream for row in rows):
        if stream not in options.streams:
            raise UserError(
                f"objective.streams has no weight for stream {stream!r} ({nearest(stream, options.streams)})"
            )
        mine = (streams == stream) & counted
        weighed = mine & (tokens > 0)
        if weighed.any():
            # rows without tokens are passed too, since a constant divisor counts them
            weights[weighed] = options.streams[stream] / options.aggregate.divisor(tokens[mine], max_tokens)
    return weights
