"""Computes the log-probability and the entropy of each response token, for several sequences in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from outrider.model.attention import Packed
from outrider.model.compiled_head import compiled_statistics
from outrider.model.compute import ComputePath
from outrider.model.device import products_in
from outrider.model.head import TokenStatistics, logit_statistics, token_statistics
from outrider.model.packing import Packable, pack
from outrider.on_device import on_device
from outrider.record import Ids

MOST_LOGITS = 1 << 28
"""Maximum number of logits in one part of a plain forward pass. This is 1 GB in float32, plus copies in the backward
pass."""


class Continuation(NamedTuple):
    """A context, and the tokens that follow the context."""

    context_ids: Ids
    token_ids: Ids

    @property
    def length(self) -> int:
        return len(self.context_ids) + len(self.token_ids)


def own_statistics(
    model: PreTrainedModel,
    path: ComputePath,
    rows: Sequence[Packable],
    dtype: torch.dtype,
    temperature: float = 1.0,
    top: int = 0,
) -> TokenStatistics:
    """Return differentiable log-probabilities and entropies of the rows' ``token_ids``, concatenated.

    Args:
        path: implementation of the policy's forward passes.
        dtype: dtype of matmuls.
        top: the number of most likely tokens per position for which log-probabilities are returned.
    """
    device = next(model.parameters()).device
    if path.name == "plain":
        with products_in(dtype, device):
            return _plain_statistics(model, rows, temperature, top)
    with products_in(dtype, device):
        hidden_NH, targets_N = own_hidden(model, rows)
    head = model.get_output_embeddings()
    # autocast does not apply to the head's custom backward pass, whose matmuls have the dtype of its input
    low_NH = hidden_NH if dtype is torch.float32 else hidden_NH.to(dtype)
    of_head = (low_NH, head.weight, getattr(head, "bias", None), targets_N, temperature)
    return compiled_statistics(*of_head) if path.compiled else token_statistics(*of_head, top)


def _plain_statistics(
    model: PreTrainedModel, rows: Sequence[Packable], temperature: float, top: int
) -> TokenStatistics:
    """Return statistics from the model's own forward pass and head. Rows are split into parts of at most
    ``MOST_LOGITS`` logits, but every part has at least one row. If there are several parts, the backward pass
    recomputes each part.
    """

    def statistics(part: Sequence[Packable]) -> TokenStatistics:
        return logit_statistics(*_own_logits(model, part), temperature, top)

    parts: list[list[Packable]] = [[]]
    for row in rows:
        tokens = max(one.length for one in [*parts[-1], row]) * (len(parts[-1]) + 1)
        if parts[-1] and tokens * model.config.get_text_config().vocab_size > MOST_LOGITS:
            parts.append([])
        parts[-1].append(row)
    if len(parts) == 1:
        return statistics(rows)
    results = [checkpoint(statistics, part, use_reentrant=False) for part in parts]
    return TokenStatistics(*(torch.cat(each) for each in zip(*results, strict=True)))


def _own_logits(model: PreTrainedModel, rows: Sequence[Packable]) -> tuple[Tensor, Tensor]:
    """Return the logits that predict the rows' ``token_ids`` (``[N, V]``), and the concatenated ``token_ids``
    (``[N]``).

    The logits are from the model's own forward pass, with rows padded on the right.
    """
    device = next(model.parameters()).device
    width = max(row.length for row in rows)
    first = min(len(row.context_ids) for row in rows) - 1  # no earlier position predicts an own token
    # No mask: a causal model ignores padding on the right, and models treat masks differently.
    ids_BL = torch.zeros(len(rows), width, dtype=torch.int64)
    for row, ids_L in zip(rows, ids_BL, strict=True):
        ids_L[: row.length] = torch.from_numpy(np.concatenate([row.context_ids, row.token_ids]).astype(np.int64))
    kept = {"logits_to_keep": width - first} if "logits_to_keep" in signature(model.forward).parameters else {}
    logits_BLV = model(input_ids=ids_BL.to(device), use_cache=False, **kept).logits
    spans = [(len(row.context_ids) - 1, len(row.token_ids)) for row in rows]
    # 0 if the model ignores logits_to_keep and returns logits of all positions
    offset = width - logits_BLV.shape[1]
    own = [logits_LV[at - offset : at - offset + n] for logits_LV, (at, n) in zip(logits_BLV, spans, strict=True)]
    targets_N = np.concatenate([row.token_ids for row in rows]).astype(np.int64)
    return torch.cat(own), torch.from_numpy(targets_N).to(device)


def own_hidden(model: PreTrainedModel, rows: Sequence[Packable]) -> tuple[Tensor, Tensor]:
    """Pack the rows. Return the hidden states that predict the rows' ``token_ids`` (``[N, H]``), and the concatenated
    ``token_ids`` (``[N]``).

    Call :func:`outrider.model.attention.use_plans` for the model first. A row needs at least one token of context.
    """
    device = next(model.parameters()).device
    packing = pack(rows)
    ids_T, positions_T, before_N, own_N = (
        on_device(each, device) for each in (packing.ids_T, packing.positions_T, packing.before_N, packing.own_N)
    )
    hidden_TH = model.get_decoder()(
        input_ids=ids_T[None], position_ids=positions_T[None], plan=Packed(packing, device), use_cache=False
    ).last_hidden_state[0]
    return hidden_TH.index_select(0, before_N), ids_T[own_N]
