"""The contract of a decoder, and a decoder that runs a model's own layers over our KV cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from outrider.model.device import products_in
from outrider.record import Ids
from outrider.sample.kept import Part, Standing, aligned
from outrider.sample.store import BLOCK, Store

PREFILL_TOKENS = 8_192  # maximum padded tokens of a prefill pass


class Cache(Protocol):
    """The KV cache of rows: ``column`` of ``columns`` columns are filled; the tokens of a row start at its column in
    ``starts_B``."""

    column: int
    columns: int
    starts_B: Tensor

    def spread(self, row_of_B: Tensor, columns: int) -> Self:
        """One row per entry of ``row_of_B``, each a copy of that row of this cache, and room for ``columns``."""
        ...

    def keep(self, row_of_B: Tensor, columns: int) -> None:
        """Like ``spread``, in place: drops finished rows, and makes room."""
        ...

    def parts(self) -> list[Part] | None:
        """The tensors of the filled columns; None if the cache also has state without rows and columns."""
        ...


C = TypeVar("C", bound=Cache)


class Decoder(Protocol[C]):
    """Prefills contexts once, then decodes the rows that continue them token by token."""

    def prefill(self, ids_CT: Tensor, starts_C: Tensor) -> tuple[C, Tensor]:
        """The cache of left-padded contexts, which start at the columns ``starts_C``, and the logits after them."""
        ...

    def proceed(self, ids_CT: Tensor, starts_C: Tensor, standing: Sequence[Standing | None]) -> tuple[C, Tensor]:
        """Like ``prefill``, but computes only the tokens of the contexts that are not cached."""
        ...

    def forward(self, ids_BQ: Tensor, cache: C) -> Tensor:
        """Logits ``[B, V]`` after the last new token; advances the cache's column by ``Q``."""
        ...

    def batchable(self, contexts: Sequence[Ids]) -> bool:
        """Whether these contexts may be prefilled in one call."""
        ...

    def updated(self) -> None:
        """Called after the model's weights have changed."""
        ...


class StoreDecoder(ABC):
    """A decoder over our own KV cache. Caches can be joined, so any contexts are prefilled in one call."""

    @property
    @abstractmethod
    def layers(self) -> int: ...

    @abstractmethod
    def forward(self, ids_BQ: Tensor, cache: Store) -> Tensor: ...

    def prefill(self, ids_CT: Tensor, starts_C: Tensor) -> tuple[Store, Tensor]:
        # split, since the activations of a pass grow with its padded tokens
        size = max(1, PREFILL_TOKENS // ids_CT.shape[1])
        stores, logits = [], []
        for ids_PT, starts_P in zip(ids_CT.split(size), starts_C.split(size), strict=True):
            stores.append(Store(starts_P, ids_CT.shape[1], self.layers))
            logits.append(self.forward(ids_PT, stores[-1]))
        return Store.joined(stores), torch.cat(logits)

    def proceed(self, ids_CT: Tensor, starts_C: Tensor, standing: Sequence[Standing | None]) -> tuple[Store, Tensor]:
        width, starts = ids_CT.shape[1], starts_C.tolist()
        store = Store.filled(starts_C, aligned(standing, starts, width + BLOCK))
        new = [width - start - (len(one.ids) if one else 0) for start, one in zip(starts, standing, strict=True)]
        logits = []
        for first, end in _passes(new):
            widest = max(new[first:end])
            there_BQ = there(new[first:end], ids_CT.device)
            window = store.window(first, end, width - widest, there_BQ)
            logits.append(self.forward(ids_CT[first:end, width - widest :], window))
        store.column = width
        return store, torch.cat(logits)

    def batchable(self, contexts: Sequence[Ids]) -> bool:
        return True


class PackedDecoder(StoreDecoder):
    """A decoder for any Hugging Face causal LM with replaceable attention. It uses the model's weights, not a copy.

    Args:
        dtype: dtype of matmuls.
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype = torch.float32) -> None:
        self._model, self._dtype = model, dtype

    @property
    def layers(self) -> int:
        return int(self._model.config.get_text_config().num_hidden_layers)

    def forward(self, ids_BQ: Tensor, cache: Store) -> Tensor:
        positions_BQ = cache.positions(ids_BQ.shape[1])
        body = self._model.get_decoder()
        with products_in(self._dtype, ids_BQ.device):
            passed = body(input_ids=ids_BQ, position_ids=positions_BQ, plan=cache, use_cache=False)
            # the head only for the last position: logits of a whole prompt would be the largest tensor of the pass
            logits_BV: Tensor = self._model.get_output_embeddings()(passed.last_hidden_state[:, -1])
        cache.column += ids_BQ.shape[1]
        return logits_BV

    def updated(self) -> None:
        """Nothing to do: the weights are shared."""


def there(new: Sequence[int], device: torch.device) -> Tensor | None:
    """A mask ``[B, Q]`` of the last Q columns (Q: maximum new tokens of a row) that are not new in a row; None if all
    are new."""
    if min(new) == max(new):
        return None
    kept_B = torch.tensor([max(new) - some for some in new], device=device)
    return torch.arange(max(new), device=device) < kept_B[:, None]


def _passes(new: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours whose numbers of new tokens differ by at most a factor of two, up to the tokens of one
    pass."""
    first = 0
    for end in range(1, len(new) + 1):
        if end == len(new) or 2 * new[end] < new[first] or new[first] * (end + 1 - first) > PREFILL_TOKENS:
            yield first, end
            first = end
