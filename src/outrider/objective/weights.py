"""Aggregation: what one token's loss counts in the loss of the whole optimizer batch. NumPy only.

Every denominator is taken here, over all rows of an optimizer batch on all ranks, before the batch is split. What is
left for a micro-batch is a plain weighted sum, so its gradient cannot depend on the split.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UserError, nearest
from outrider.objective.options import ObjectiveOptions
from outrider.objective.row import Row


def token_weights(rows: Sequence[Row], options: ObjectiveOptions, max_tokens: int) -> list[NDArray[np.float64]]:
    r"""One weight per own token of each row; observed tokens weigh 0.

    With stream weight :math:`\lambda_s`, rows :math:`i` of stream :math:`s` and :math:`n_i` trainable tokens:

    * ``token_mean``: :math:`\lambda_s / \sum_{i \in s} n_i`
    * ``sequence_mean``: :math:`\lambda_s / (R_s\, n_i)`, with :math:`R_s` the rows that have a trainable token
    * ``constant``: :math:`\lambda_s / (|s|\, L)`, with L = ``constant_length`` or ``max_tokens``

    Rows without advantage count in every denominator. A stream without any trainable token has no tokens to weigh.

    Raises:
        UserError: a row's stream has no weight in ``options.streams``.
    """
    trainable = np.array([row.trainable_N.sum() for row in rows], dtype=np.float64)
    streams = np.array([row.stream for row in rows])
    per_token = np.zeros(len(rows))
    for stream in dict.fromkeys(row.stream for row in rows):
        if stream not in options.streams:
            raise UserError(
                f"objective.streams has no weight for stream {stream!r} ({nearest(stream, options.streams)})"
            )
        of_stream = (streams == stream) & (trainable > 0)
        if not of_stream.any():
            continue
        if options.aggregate == "token_mean":
            denominator = trainable[of_stream].sum()
        elif options.aggregate == "sequence_mean":
            denominator = trainable[of_stream] * of_stream.sum()
        else:
            denominator = float((streams == stream).sum() * (options.constant_length or max_tokens))
        per_token[of_stream] = options.streams[stream] / denominator
    return [np.where(row.trainable_N, weight, 0.0) for row, weight in zip(rows, per_token, strict=True)]
