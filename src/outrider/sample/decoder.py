"""The interface of a decoder, and a decoder that runs a model's own layers on Outrider's KV cache."""

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

PREFILL_TOKENS = 8_192  # maximum tokens per prefill pass, padding included


class Cache(Protocol):
    """The KV cache of a batch of rows.

    A column is a token position. There is room for ``columns`` token positions, and the first ``column`` of them are
    filled. The tokens of row ``b`` start at position ``starts_B[b]``, and earlier positions are padding.
    """

    column: int
    columns: int
    starts_B: Tensor

    def spread(self, row_of_B: Tensor, columns: int) -> Self:
        """Return a new cache with ``columns`` columns. Its row ``b`` is a copy of this cache's row ``row_of_B[b]``."""
        ...

    def keep(self, row_of_B: Tensor, columns: int) -> None:
        """Like ``spread``, but change this cache in place: drop finished rows and make room for ``columns`` columns."""
        ...

    def parts(self) -> list[Part] | None:
        """Return the tensors of the cache, or None if the cache does not store every token, as with a recurrent
        state."""
        ...


C = TypeVar("C", bound=Cache)


class Decoder(Protocol[C]):
    """Prefills each context once, then decodes all rows that continue this context, token by token."""

    def prefill(self, ids_CT: Tensor, starts_C: Tensor) -> tuple[C, Tensor]:
        """Prefill left-padded contexts, and return their KV cache and next-token logits.

        Context ``c`` starts at column ``starts_C[c]``.
        """
        ...

    def proceed(self, ids_CT: Tensor, starts_C: Tensor, standing: Sequence[Standing | None]) -> tuple[C, Tensor]:
        """Like ``prefill``, but context ``c`` begins with the cached tokens ``standing[c]``, and the model processes
        only the tokens after them. None means that no token of the context is cached."""
        ...

    def forward(self, ids_BQ: Tensor, cache: C) -> Tensor:
        """Process ``Q`` new tokens per row, advance ``cache.column`` by ``Q``, and return the logits ``[B, V]``.

        The logits of a row predict the token after its last new token.
        """
        ...

    def batchable(self, contexts: Sequence[Ids]) -> bool:
        """Whether these contexts can be prefilled together in one call."""
        ...

    def updated(self) -> None:
        """Refresh all state derived from the weights. The sampler calls this method after the model's weights have
        changed."""
        ...


class StoreDecoder(ABC):
    """A decoder that uses Outrider's own KV cache.

    Any number of contexts can be prefilled in one call, since they may be split into several passes.
    """

    @property
    @abstractmethod
    def layers(self) -> int: ...

    @abstractmethod
    def forward(self, ids_BQ: Tensor, cache: Store) -> Tensor: ...

    def prefill(self, ids_CT: Tensor, starts_C: Tensor) -> tuple[Store, Tensor]:
        # split into passes, since a pass's activation memory grows with its padded tokens
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
    """A decoder for any Hugging Face causal LM whose attention function can be replaced.

    The decoder uses the model's weights without a copy.

    Args:
        dtype: matmul dtype.
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
            # apply the head to the last position only: logits of a whole prompt would be the pass's largest tensor
            logits_BV: Tensor = self._model.get_output_embeddings()(passed.last_hidden_state[:, -1])
        cache.column += ids_BQ.shape[1]
        return logits_BV

    def updated(self) -> None:
        """Do nothing, since the weights are shared with the model."""


def there(new: Sequence[int], device: torch.device) -> Tensor | None:
    """Return a mask ``[B, Q]`` over the last ``Q = max(new)`` tokens of each row. The mask is true for tokens that are
    already cached. Return None if none of these tokens is cached.

    ``new[b]`` is the number of tokens at the end of row ``b`` that are not cached.
    """
    if min(new) == max(new):
        return None
    kept_B = torch.tensor([max(new) - some for some in new], device=device)
    return torch.arange(max(new), device=device) < kept_B[:, None]


def _passes(new: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split the rows into ranges of neighbouring rows, and yield one range per forward pass.

    Within a range, the numbers of new tokens differ by at most a factor of two. A range has at most ``PREFILL_TOKENS``
    tokens, including padding.
    """
    first = 0
    for end in range(1, len(new) + 1):
        if end == len(new) or 2 * new[end] < new[first] or new[first] * (end + 1 - first) > PREFILL_TOKENS:
            yield first, end
            first = end
