"""The contract of a decoder, and the generic one: the model's own forward pass over our key-value store."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from outrider.model.device import products_in
from outrider.sample.store import Store


class Decoder(Protocol):
    """One forward pass of new tokens over a store."""

    @property
    def layers(self) -> int: ...

    def forward(self, ids_BQ: Tensor, store: Store) -> Tensor:
        """Logits ``[B, V]`` after the last of the new tokens; the store's column moves on by ``Q``."""
        ...

    def updated(self) -> None:
        """The model's weights have changed."""
        ...


class GenericDecoder:
    """Any Hugging Face causal LM whose attention can be replaced. Reads the model's weights where they are.

    Args:
        dtype: of matrix products.
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype = torch.float32) -> None:
        self._model, self._dtype = model, dtype

    @property
    def layers(self) -> int:
        return int(self._model.config.get_text_config().num_hidden_layers)

    def forward(self, ids_BQ: Tensor, store: Store) -> Tensor:
        positions_BQ = store.positions(ids_BQ.shape[1])
        body = self._model.get_decoder()
        with products_in(self._dtype, ids_BQ.device):
            passed = body(input_ids=ids_BQ, position_ids=positions_BQ, plan=store, use_cache=False)
            logits_BV: Tensor = self._model.get_output_embeddings()(passed.last_hidden_state[:, -1])
        store.column += ids_BQ.shape[1]
        return logits_BV

    def updated(self) -> None:
        """Nothing to do: the weights are shared."""
