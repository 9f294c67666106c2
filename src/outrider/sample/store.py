"""The key-value store of a decoding wave: left-padded, so that all rows write the same column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


class Store:
    """Keys and values of ``B`` rows, and attention over them. A plan of :mod:`outrider.model.attention`.

    Keys lie transposed, ``[B * KV, D, S]``, and values ``[B * KV, S, D]``: the layouts in which the two products of a
    one-token step read memory in order (transposed keys: 1.5 times faster than ``[.., S, D]`` on a CPU).

    Args:
        starts_B: first column that belongs to each row; the ones before are padding.
        columns: room in all.
    """

    def __init__(self, starts_B: Tensor, columns: int, layers: int) -> None:
        self.starts_B, self.columns = starts_B, columns
        self.column = 0  # next to be written
        self.keys: list[Tensor] = [torch.empty(0)] * layers
        self.values: list[Tensor] = [torch.empty(0)] * layers
        at_S = torch.arange(columns, device=starts_B.device)
        self._padding_BS = torch.zeros(len(starts_B), columns, device=starts_B.device)
        self._padding_BS.masked_fill_(at_S[None] < starts_B[:, None], float("-inf"))

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
        end = self.column + width
        keys, values = self._write(layer, k, v, end)
        if width > 1:
            return self._attend_many(q, keys, values, scale, window, end)
        grouped = q.reshape(rows * k.shape[1], heads // k.shape[1], dim)
        scores = torch.baddbmm(self._bias(rows, k.shape[1], end, window, q.dtype), grouped, keys, alpha=scale)
        return torch.bmm(scores.softmax(-1), values).view(rows, 1, heads, values.shape[-1])

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
        spread.column = self.column
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            heads = keys.shape[0] // self.rows
            pick = (row_of_B[:, None] * heads + torch.arange(heads, device=row_of_B.device)).reshape(-1)
            spread._allocate(layer, heads, keys.shape[1], values.shape[2], keys)
            spread.keys[layer][:, :, : self.column] = keys[pick, :, : self.column]
            spread.values[layer][:, : self.column] = values[pick, : self.column]
        return spread

    def _write(self, layer: int, k: Tensor, v: Tensor, end: int) -> tuple[Tensor, Tensor]:
        rows, heads, width, dim = k.shape
        if self.keys[layer].numel() == 0:
            self._allocate(layer, heads, dim, v.shape[-1], k)
        self.keys[layer][:, :, self.column : end] = k.reshape(rows * heads, width, dim).transpose(1, 2)
        self.values[layer][:, self.column : end] = v.reshape(rows * heads, width, v.shape[-1])
        return self.keys[layer][:, :, :end], self.values[layer][:, :end]

    def _allocate(self, layer: int, heads: int, key_dim: int, value_dim: int, like: Tensor) -> None:
        self.keys[layer] = like.new_empty(self.rows * heads, key_dim, self.columns)
        self.values[layer] = like.new_empty(self.rows * heads, self.columns, value_dim)

    def _bias(self, rows: int, heads: int, end: int, window: int | None, dtype: torch.dtype) -> Tensor:
        bias_BS = self._padding_BS[:, :end]
        if window is not None and end > window:
            bias_BS = bias_BS.clone()
            bias_BS[:, : end - window] = float("-inf")
        return bias_BS.to(dtype)[:, None].expand(rows, heads, end).reshape(rows * heads, 1, end)

    def _attend_many(
        self, q: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None, end: int
    ) -> Tensor:
        """Prefill: causal, padding hidden; a padding query sees itself, so that no row of the softmax is empty."""
        rows, heads, width, _ = q.shape
        at = torch.arange(end, device=q.device)
        query_at = at[end - width :, None]
        seen = (at[None] <= query_at) & (True if window is None else query_at - at[None] < window)
        seen_BQS = (seen[None] & (at[None, None] >= self.starts_B[:, None, None])) | (at[None] == query_at)[None]
        shape = (rows, keys.shape[0] // rows)
        k = keys.view(*shape, *keys.shape[1:]).transpose(2, 3)
        v = values.reshape(*shape, *values.shape[1:])
        gqa = shape[1] != heads
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen_BQS[:, None], scale=scale, enable_gqa=gqa)
        return out.transpose(1, 2)
