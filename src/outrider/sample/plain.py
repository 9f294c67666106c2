"""The plain decoder, which uses a model's own forward pass and cache, as ``generate`` of transformers does."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from outrider.model.device import products_in
from outrider.record import Ids
from outrider.sample.decoder import PREFILL_TOKENS, there
from outrider.sample.kept import Part, Standing, aligned

_CACHE_NAMES = ("cache", "cache_params", "past_key_values")
"""Possible names of the cache argument; since transformers 5.24, all models use the first."""


class OwnCache:
    """The arguments of a model's next forward call: its cache, attention mask and positions."""

    columns = sys.maxsize  # effectively unlimited, since transformers caches grow

    def __init__(self, arguments: dict[str, Any], starts_B: Tensor, column: int = 0) -> None:
        self.arguments, self.starts_B, self.column = arguments, starts_B, column

    def spread(self, row_of_B: Tensor, columns: int) -> OwnCache:
        # copied before the in-place reorder, since a context's cache can be spread more than once
        spread = OwnCache({name: _copied(value) for name, value in self.arguments.items()}, self.starts_B, self.column)
        spread.keep(row_of_B, columns)
        return spread

    def keep(self, row_of_B: Tensor, columns: int) -> None:
        for name, value in self.arguments.items():
            self.arguments[name] = _rows(value, row_of_B)
        self.starts_B = self.starts_B[row_of_B]

    def parts(self) -> list[Part] | None:
        """Return the cache's tensors, or None if a layer does not store all tokens, because it has a sliding window or
        a recurrent state."""
        layers: list[Any] = [
            layer for cache in self.arguments.values() if type(cache) is DynamicCache for layer in cache.layers
        ]
        if not layers or not all(type(layer) in (DynamicLayer, _Begun) and layer.is_initialized for layer in layers):
            return None
        return [*((layer.keys, 2) for layer in layers), *((layer.values, 2) for layer in layers)]


class _Begun(DynamicLayer):
    """A cache layer that starts with a kept KV cache.

    Args:
        new: number of tokens per row in the next forward call.
        there_BQ: bool mask over the tokens of this call, True for tokens that are already in the kept KV cache; None if
            there are no such tokens.
    """

    def __init__(self, keys: Tensor, values: Tensor, new: int, there_BQ: Tensor | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys[:, :, :-new], values[:, :, :-new]
        self._last = None if there_BQ is None else (there_BQ[:, None, :, None], keys[:, :, -new:], values[:, :, -new:])

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self._last is not None:
            (there, keys, values), self._last = self._last, None
            key_states, value_states = torch.where(there, keys, key_states), torch.where(there, values, value_states)
        return super().update(key_states, value_states, *args, **kwargs)


class PlainDecoder:
    """Runs any transformers causal LM, even with recurrent states, attention sinks, soft caps or a custom cache.

    This decoder is slower than the fused and the packed decoder, because it copies most caches at every token. It also
    casts weights at every token if their dtype is not ``dtype``.

    Args:
        dtype: matmul dtype.
        left_pads: whether contexts of different lengths can be batched (see
            :class:`outrider.model.compute.ComputePath`).
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype = torch.float32, left_pads: bool = True) -> None:
        self._model: Any = model  # untyped: its type stub lacks the methods for generation
        self._dtype, self._left_pads = dtype, left_pads
        self._accepted = signature(model.forward).parameters
        self._cache = next((name for name in _CACHE_NAMES if name in self._accepted), _CACHE_NAMES[-1])

    def prefill(self, ids_CT: Tensor, starts_C: Tensor) -> tuple[OwnCache, Tensor]:
        arguments = self._arguments(ids_CT, starts_C)
        if self._model._supports_default_dynamic_cache():
            arguments[self._cache] = DynamicCache(config=self._model.config.get_text_config(decoder=True))
        cache = OwnCache(arguments, starts_C)
        return cache, self.forward(ids_CT, cache)

    def proceed(self, ids_CT: Tensor, starts_C: Tensor, standing: Sequence[Standing | None]) -> tuple[OwnCache, Tensor]:
        width, starts = ids_CT.shape[1], starts_C.tolist()
        parts = [tensor for tensor, _ in aligned(standing, starts, width)]
        new = [width - start - (len(one.ids) if one else 0) for start, one in zip(starts, standing, strict=True)]
        there_CQ, layers = there(new, ids_CT.device), len(parts) // 2
        dynamic = DynamicCache()
        pairs = zip(parts[:layers], parts[layers:], strict=True)
        dynamic.layers = [_Begun(keys, values, max(new), there_CQ) for keys, values in pairs]
        arguments = self._arguments(ids_CT, starts_C) | {self._cache: dynamic}
        cache = OwnCache(arguments, starts_C, width - max(new))
        return cache, self.forward(ids_CT[:, width - max(new) :], cache)

    def _arguments(self, ids_CT: Tensor, starts_C: Tensor) -> dict[str, Any]:
        mask_CT = (torch.arange(ids_CT.shape[1], device=ids_CT.device) >= starts_C[:, None]).long()
        arguments: dict[str, Any] = {"attention_mask": mask_CT, "use_cache": True}
        if "position_ids" in self._accepted:
            # padding has no position: the cumulative sum of the mask numbers the real tokens from 0
            arguments["position_ids"] = (mask_CT.cumsum(-1) - 1).clamp_min(0)
        return arguments

    def forward(self, ids_BQ: Tensor, cache: OwnCache) -> Tensor:
        last = {"logits_to_keep": 1} if "logits_to_keep" in self._accepted else {}
        inputs = self._model.prepare_inputs_for_generation(
            ids_BQ, is_first_iteration=cache.column == 0, **cache.arguments, **last
        )
        with products_in(self._dtype, ids_BQ.device):
            passed = self._model(**inputs, return_dict=True)
        cache.column += ids_BQ.shape[1]
        cache.arguments = self._model._update_model_kwargs_for_generation(passed, cache.arguments)
        logits_BV: Tensor = passed.logits[:, -1]
        return logits_BV

    def batchable(self, contexts: Sequence[Ids]) -> bool:
        """Whether the contexts fit into one prefill pass. This decoder cannot join the caches of several passes.

        Without left padding, the contexts must also have equal lengths.
        """
        lengths = [len(ids) for ids in contexts]
        if not self._left_pads and len(set(lengths)) > 1:
            return False
        return len(lengths) == 1 or len(lengths) * max(lengths) <= PREFILL_TOKENS

    def updated(self) -> None:
        """Do nothing, since the weights are shared with the model."""


def _rows(value: Any, row_of_B: Tensor) -> Any:
    """Select rows of a tensor, of a list of states (RWKV), or of a cache (in place). Other values are returned
    unchanged."""
    if isinstance(value, Tensor):
        return value.index_select(0, row_of_B)
    if isinstance(value, list):
        return [_rows(one, row_of_B) for one in value]
    if not hasattr(value, "reorder_cache"):
        return value
    value.reorder_cache(row_of_B)
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(one) for one in value]
    return copy.deepcopy(value) if hasattr(value, "reorder_cache") else value
