"""The rows of an optimizer batch with their weights and selections, and the tensors of a micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outrider.objective.selection import Selected
from outrider.record.row import TrainingRow


class WeightedRow(NamedTuple):
    """A row, and what was decided about it over the whole optimizer batch.

    Attributes:
        weight: of each trainable token, in every term of the loss.
        trained: False where no term of the loss has a gradient, so that the row is not computed.
        selected: see there.
        pulled: whether the KL to the reference acts on it.
    """

    row: TrainingRow
    weight: float
    trained: bool
    selected: Selected = Selected()
    pulled: bool = True

    @property
    def length(self) -> int:
        return self.row.length


class TokenBatch(NamedTuple):
    """The own tokens of a micro-batch, end to end: every tensor is ``[N]``; None stands for all 1, or for no penalty.

    Attributes:
        weights: of each term of the loss; above 0 for trainable tokens alone.
        lengths: own tokens of each row.
        keeps: 0 where a selection takes the policy gradient, else 1.
        importance: weights of the policy term.
        penalties: coefficients of the distance from the policy that sampled.
        pulled: 0 where the KL to the reference does not act, else 1.
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
    def of(weighted: Sequence[WeightedRow], like: Tensor) -> TokenBatch:
        """On the device and in the type of ``like``."""
        rows = [w.row for w in weighted]
        pulled = (
            None if all(w.pulled for w in weighted) else [np.full(len(w.row.token_ids), w.pulled) for w in weighted]
        )
        return TokenBatch(
            old_logprobs=_tensor([row.old_logprobs_N for row in rows], like),
            advantages=_tensor([row.advantages_N for row in rows], like),
            weights=_tensor([w.weight * w.row.trainable_N for w in weighted], like),
            lengths=[len(row.token_ids) for row in rows],
            keeps=_optional([w.selected.keeps_N for w in weighted], like),
            importance=_optional([row.importance_N for row in rows], like),
            penalties=_optional([w.selected.penalties_N for w in weighted], like),
            pulled=None if pulled is None else _tensor(pulled, like),
        )


def _optional(parts: Sequence[NDArray[Any] | None], like: Tensor) -> Tensor | None:
    """None, or one array per row: a selection or a correction has them for all rows or for none."""
    # all trained rows have it or none has: only rows of weight 0 lack a choice, and those are not trained
    given = [part for part in parts if part is not None]
    return _tensor(given, like) if given else None


def _tensor(parts: Sequence[NDArray[Any]], like: Tensor) -> Tensor:
    return torch.from_numpy(np.concatenate(parts)).to(device=like.device, dtype=like.dtype)
