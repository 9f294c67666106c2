"""A packed forward pass, up to what the language-model head is applied to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from outrider.model.attention import Packed
from outrider.record import Ids


class Packable(Protocol):
    """A sequence whose last tokens are looked at: ``context_ids`` first, then ``token_ids``, its own."""

    @property
    def context_ids(self) -> Ids: ...
    @property
    def token_ids(self) -> Ids: ...
    @property
    def length(self) -> int: ...


def own_hidden(model: PreTrainedModel, rows: Sequence[Packable]) -> tuple[Tensor, Tensor]:
    """The hidden states that predict the own tokens of packed rows, end to end, ``[N, H]``, and these tokens, ``[N]``.

    The model's attention must be routed through plans. A row needs at least one token of context.
    """
    device = next(model.parameters()).device
    ids = np.concatenate([part for row in rows for part in (row.context_ids, row.token_ids)])
    ids_T = torch.from_numpy(ids.astype(np.int64)).to(device)
    plan = Packed([row.length for row in rows], device)
    # the hidden state *before* an own token predicts it
    starts = np.cumsum([0] + [row.length for row in rows[:-1]]) + [len(row.context_ids) for row in rows]
    at = np.concatenate([start + np.arange(len(row.token_ids)) for start, row in zip(starts, rows, strict=True)])
    at_N = torch.from_numpy(at.astype(np.int64)).to(device)
    hidden_TH = model.get_decoder()(
        input_ids=ids_T[None], position_ids=plan.positions_T[None], plan=plan, use_cache=False
    ).last_hidden_state[0]
    return hidden_TH.index_select(0, at_N - 1), ids_T[at_N]
