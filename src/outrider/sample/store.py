"""The key-value store of a decoding wave: left-padded, so that all rows write the same column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


class Store:
    """Keys and values of ``B`` rows, and attention over them. A plan of :mod:`outrider.model.attention`.

    Keys lie transposed, ``[B, KV, D, S]``, and values ``[B, KV, S, D]``: the layouts in which the two products of a
    one-token step read memory in order (keys lying ``[.., S, D]`` take 1.6 times as long on a CPU).

    Args:
        starts_B: first column that belongs to each row; the ones before are padding.
        columns: room in all.
    """

    def __init__(self, starts_B: Tensor, columns: int, layers: int) -> None:
        self.starts_B, self.columns = starts_B, columns
        self.column = 0  # next to be written
        self.keys: list[Tensor] = [torch.empty(0)] * layers
        self.values: list[Tensor] = [torch.empty(0)] * layers
        self._bias = torch.empty(0)
        self._bias_of: tuple[int, int | None, int] | None = None

    @property
    def rows(self) -> int:
        return len(self.starts_B)

    def positions(self, width: int) -> Tensor:
        """Positions of the next ``width`` tokens, ``[B, width]``; padding sits at position 0."""
        at = torch.arange(self.column, self.column + width, device=self.starts_B.device)
        return (at[None] - self.starts_B[:, None]).clamp_min(0)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        """Write the new keys and values, then attend: ``q [B, H, Q, D]`` to ``[B, Q, H, D]``.

        The caller moves ``column`` on once all layers have seen the tokens.
        """
        rows, heads, width, dim = q.shape
        kv = k.shape[1]
        self._write(layer, k, v)
        end = self.column + width
        keys, values = self.keys[layer][..., :end], self.values[layer][:, :, :end]
        if width > 1:
            return self._attend_many(q, keys, values, scale, window, end)
        grouped = q.reshape(rows * kv, heads // kv, dim)
        bias = self._padding(kv, end, window, q.dtype)
        scores = torch.baddbmm(bias, grouped, keys.flatten(0, 1), alpha=scale)
        mixed = torch.bmm(scores.softmax(-1), values.flatten(0, 1))
        return mixed.view(rows, 1, heads, values.shape[-1])

    @staticmethod
    def joined(parts: Sequence[Store]) -> Store:
        """Stores of equal width, one below the other."""
        if len(parts) == 1:
            return parts[0]
        whole = Store(torch.cat([p.starts_B for p in parts]), parts[0].columns, len(parts[0].keys))
        whole.column = parts[0].column
        whole.keys = [torch.cat(layer) for layer in zip(*(p.keys for p in parts), strict=True)]
        whole.values = [torch.cat(layer) for layer in zip(*(p.values for p in parts), strict=True)]
        return whole

    def spread(self, row_of_B: Tensor, columns: int) -> Store:
        """A store with one row per entry of ``row_of_B``, each a copy of that row, and room for ``columns``.

        Shares a context among its continuations, and drops finished rows.
        """
        spread = Store(self.starts_B[row_of_B], columns, len(self.keys))
        spread.column = used = self.column
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            spread._allocate(layer, keys.shape[1], keys.shape[2], values.shape[3], keys)
            spread.keys[layer][..., :used] = keys[..., :used].index_select(0, row_of_B)
            spread.values[layer][:, :, :used] = values[:, :, :used].index_select(0, row_of_B)
        return spread

    def _write(self, layer: int, k: Tensor, v: Tensor) -> None:
        if self.keys[layer].numel() == 0:
            self._allocate(layer, k.shape[1], k.shape[3], v.shape[3], k)
        if k.shape[2] == 1:
            self.keys[layer][..., self.column] = k[:, :, 0]
            self.values[layer][:, :, self.column] = v[:, :, 0]
        else:
            end = self.column + k.shape[2]
            self.keys[layer][..., self.column : end] = k.transpose(2, 3)
            self.values[layer][:, :, self.column : end] = v

    def _allocate(self, layer: int, heads: int, key_dim: int, value_dim: int, like: Tensor) -> None:
        self.keys[layer] = like.new_empty(self.rows, heads, key_dim, self.columns)
        self.values[layer] = like.new_empty(self.rows, heads, self.columns, value_dim)

    def _padding(self, heads: int, end: int, window: int | None, dtype: torch.dtype) -> Tensor:
        """0 where a one-token query may look, -inf elsewhere: ``[B * heads, 1, end]``, made once for all layers."""
        if self._bias_of != (end, window, heads):
            at = torch.arange(end, device=self.starts_B.device)
            first_B = self.starts_B if window is None else self.starts_B.clamp_min(end - window)
            hidden = (at[None] < first_B[:, None]).repeat_interleave(heads, 0)
            self._bias = torch.zeros(hidden.shape, dtype=dtype, device=at.device).masked_fill_(hidden, float("-inf"))
            self._bias_of = (end, window, heads)
        return self._bias[:, None]

    def _attend_many(
        self, q: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None, end: int
    ) -> Tensor:
        """Prefill: causal, padding hidden; a padding query sees itself, so that no row of the softmax is empty."""
        width = q.shape[2]
        at = torch.arange(end, device=q.device)
        query_at = at[end - width :, None]
        seen = (at[None] <= query_at) & (True if window is None else query_at - at[None] < window)
        seen_BQS = (seen[None] & (at[None, None] >= self.starts_B[:, None, None])) | (at[None] == query_at)[None]
        gqa = keys.shape[1] != q.shape[1]
        k = keys.transpose(2, 3)
        out = F.scaled_dot_product_attention(q, k, values, attn_mask=seen_BQS[:, None], scale=scale, enable_gqa=gqa)
        return out.transpose(1, 2)
