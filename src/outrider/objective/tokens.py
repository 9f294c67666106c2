"""The tensors of a micro-batch, concatenated from its rows (one row per rollout)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from outrider.on_device import on_device
from outrider.record.row import WeightedRow


class TokenBatch(NamedTuple):
    """The inputs of the loss for a micro-batch. Tensors have one value for each of the ``N`` tokens (the ``token_ids``
    of all rows, concatenated). If an optional field is None, its value is 1 at every token; for ``penalties``, None
    means no penalty.

    Attributes:
        weights: weight of each token's loss; positive only for trainable tokens.
        lengths: number of ``token_ids`` in each row, trainable or not.
        keeps: 0 for tokens whose policy gradient is removed by ``objective.select``, otherwise 1.
        importance: importance weights of the policy term.
        penalties: coefficients of the penalty on the distance from the sampling policy.
        pulled: 0 for tokens without a KL penalty to the reference, otherwise 1.
    """

    old_logprobs: Tensor
    advantages: Tensor
    weights: Tensor
    lengths: Sequence[int]
    keeps: Tensor | None = None
    importance: Tensor | None = None
    penalties: Tensor | None = None
    pulled: Tensor | None = None

    @staticmethod
    def of(rows: Sequence[WeightedRow], like: Tensor) -> TokenBatch:
        """Pack rows into tensors on the device and in the dtype of ``like``."""
        pulled = None if all(row.pulled for row in rows) else [np.full(len(row.token_ids), row.pulled) for row in rows]
        return TokenBatch(
            old_logprobs=_tensor([row.old_logprobs_N for row in rows], like),
            advantages=_tensor([row.advantages_N for row in rows], like),
            weights=_tensor([row.weight * row.trainable_N for row in rows], like),
            lengths=[len(row.token_ids) for row in rows],
            keeps=_optional([row.keeps_N for row in rows], rows, 1.0, like),
            importance=_optional([row.importance_N for row in rows], rows, 1.0, like),
            penalties=_optional([row.penalties_N for row in rows], rows, 0.0, like),
            pulled=None if pulled is None else _tensor(pulled, like),
        )


def _optional(
    parts: Sequence[NDArray[Any] | None], rows: Sequence[WeightedRow], missing: float, like: Tensor
) -> Tensor | None:
    """Concatenate one array per row. For a row without an array (None), each token gets the fill value ``missing``.
    Return None if no row has an array."""
    if all(part is None for part in parts):
        return None
    given = zip(parts, rows, strict=True)
    return _tensor([np.full(len(row.token_ids), missing) if part is None else part for part, row in given], like)


def _tensor(parts: Sequence[NDArray[Any]], like: Tensor) -> Tensor:
    return on_device(np.concatenate(parts), like.device, like.dtype)
