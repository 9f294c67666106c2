"""The KV cache of a batch of rollouts. Contexts are left-padded, so that all rows write to the same column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from outrider.sample.kept import Part

BLOCK = 32  # columns added when a store grows; unused columns cost memory traffic


class Store:
    """The KV cache of ``B`` rows. It also computes attention over the cached tokens: the model's attention layers call
    :meth:`attend` (:mod:`outrider.model.attention`).

    Keys are stored transposed, as ``[B, KV, D, S]``, and values as ``[B, KV, S, D]``.

    Args:
        starts_B: first column of each row's tokens. Earlier columns are padding.
        columns: number of columns.
    """

    def __init__(self, starts_B: Tensor, columns: int, layers: int) -> None:
        self.starts_B, self.columns = starts_B, columns
        self.column = 0  # the next column to write
        # With these two layouts, both matmuls of a one-token step read memory sequentially; keys stored as [.., S, D]
        # take 1.6 times as long on a CPU. Shapes are only known at the first write.
        self.keys: list[Tensor] = [torch.empty(0)] * layers
        self.values: list[Tensor] = [torch.empty(0)] * layers
        self._there_BQ: Tensor | None = None
        self._bias = torch.empty(0)
        self._bias_of: tuple[int, int | None, int | None] | None = None
        self._padding: int | None = None

    @property
    def rows(self) -> int:
        return len(self.starts_B)

    def positions(self, width: int) -> Tensor:
        """Return the positions of the next ``width`` tokens, ``[B, width]``. Padding has position 0."""
        at = torch.arange(self.column, self.column + width, device=self.starts_B.device)
        return (at[None] - self.starts_B[:, None]).clamp_min(0)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        """Append ``k`` and ``v`` to the KV cache, then compute attention. ``q`` is ``[B, H, Q, D]``, and the result is
        ``[B, Q, H, D]``.

        The caller advances ``column`` once all layers have processed the tokens.
        """
        rows, heads, width, dim = q.shape
        if width == 1:
            grouped = q.reshape(rows * k.shape[1], -1, dim)
            return self.attend_one(layer, grouped, k[:, :, 0], v[:, :, 0], scale, window).view(rows, 1, heads, -1)
        self._write(layer, k, v)
        end = self.column + width
        keys, values = self.keys[layer][..., :end], self.values[layer][:, :, :end]
        return self._attend_many(q, keys, values, scale, window, end)

    def attend_one(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
        """Like ``attend``, but for one token per row and without a copy of keys or values.

        ``q`` and the result are ``[B * KV, H / KV, D]``, with the query heads grouped by the key head that they share.
        ``k`` and ``v`` are ``[B, KV, D]``.
        """
        if self.keys[layer].numel() == 0:  # first write: contexts of one token
            self._allocate(layer, k.shape[1], k.shape[2], v.shape[2], k)
        keys, values, end = self.keys[layer], self.values[layer], self.column + 1
        keys[..., self.column] = k
        values[:, :, self.column] = v
        # one matmul per key head and all queries that share it, without a copy of the keys
        scores = torch.bmm(q, keys[..., :end].flatten(0, 1))
        if scale != 1.0:
            scores *= scale
        if (hidden := self._hidden(keys.shape[1], end, window, q.dtype)).numel():
            scores[..., : hidden.shape[-1]] += hidden
        return torch.bmm(scores.softmax(-1), values[:, :, :end].flatten(0, 1))

    @classmethod
    def filled(cls, starts_B: Tensor, parts: Sequence[Part]) -> Store:
        """Create a store from the tensors of :meth:`parts`."""
        layers = len(parts) // 2
        store = cls(starts_B, parts[0][0].shape[3], layers)
        store.keys, store.values = [k for k, _ in parts[:layers]], [v for v, _ in parts[layers:]]
        return store

    def parts(self) -> list[Part]:
        return [*((k, 3) for k in self.keys), *((v, 2) for v in self.values)]

    def window(self, first: int, end: int, column: int, there_BQ: Tensor | None) -> Store:
        """Return a view of the rows ``first`` to ``end``, in which new tokens are written from ``column`` on.

        Cells that the mask ``there_BQ`` marks as already cached are not overwritten.
        """
        rows = slice(first, end)
        view = Store(self.starts_B[rows], self.columns, 0)
        view.keys, view.values = [k[rows] for k in self.keys], [v[rows] for v in self.values]
        view.column, view._there_BQ = column, there_BQ
        return view

    @staticmethod
    def joined(parts: Sequence[Store]) -> Store:
        """Return one store with the rows of all ``parts``. All parts must have the same number of columns, and equally
        many columns must be filled."""
        if len(parts) == 1:
            return parts[0]
        whole = Store(torch.cat([p.starts_B for p in parts]), parts[0].columns, len(parts[0].keys))
        whole.column = parts[0].column
        whole.keys = [torch.cat(layer) for layer in zip(*(p.keys for p in parts), strict=True)]
        whole.values = [torch.cat(layer) for layer in zip(*(p.values for p in parts), strict=True)]
        return whole

    def spread(self, row_of_B: Tensor, columns: int) -> Store:
        """Return a store with ``columns`` columns, whose row ``b`` is a copy of this store's row ``row_of_B[b]``.

        Several rows can then continue one context.
        """
        spread = Store(self.starts_B, self.columns, 0)
        spread.column, spread.keys, spread.values = self.column, [*self.keys], [*self.values]
        spread.keep(row_of_B, columns)
        return spread

    def keep(self, row_of_B: Tensor, columns: int) -> None:
        """Like ``spread``, but change this store in place, tensor by tensor, since two full stores may not fit in
        memory."""
        self.starts_B, self.columns = self.starts_B[row_of_B], columns
        self._bias_of = self._padding = None
        for layer in range(len(self.keys)):
            self.keys[layer] = self._rows(self.keys[layer], row_of_B, 3)
            self.values[layer] = self._rows(self.values[layer], row_of_B, 2)

    def _rows(self, old: Tensor, row_of_B: Tensor, columns: int) -> Tensor:
        """Copy rows of a tensor to a new tensor that has room for all columns. ``columns`` is the index of the column
        dimension."""
        if old.shape[columns] == self.columns:  # whole rows copy in two thirds of the time
            return old.index_select(0, row_of_B)
        shape = list(old.shape)
        shape[0], shape[columns] = len(row_of_B), self.columns
        new = old.new_empty(shape)
        new.narrow(columns, 0, self.column).copy_(old.narrow(columns, 0, self.column).index_select(0, row_of_B))
        return new

    def _write(self, layer: int, k: Tensor, v: Tensor) -> None:
        if self.keys[layer].numel() == 0:
            self._allocate(layer, k.shape[1], k.shape[3], v.shape[3], k)
        columns = slice(self.column, self.column + k.shape[2])
        keys, values = self.keys[layer][..., columns], self.values[layer][:, :, columns]
        k = k.transpose(2, 3)
        if self._there_BQ is not None:
            k = torch.where(self._there_BQ[:, None, None], keys, k)
            v = torch.where(self._there_BQ[:, None, :, None], values, v)
        keys.copy_(k)
        values.copy_(v)

    def _allocate(self, layer: int, heads: int, key_dim: int, value_dim: int, like: Tensor) -> None:
        self.keys[layer] = like.new_empty(self.rows, heads, key_dim, self.columns)
        self.values[layer] = like.new_empty(self.rows, heads, self.columns, value_dim)

    def _hidden(self, heads: int, end: int, window: int | None, dtype: torch.dtype) -> Tensor:
        """Return the attention bias of a one-token query, ``[B * heads, 1, C]``. The bias is -inf for columns hidden
        from a row, and 0 otherwise.

        ``C`` is the number of columns that are hidden from at least one row.
        """
        # Every row sees the columns after the longest padding, so these columns need no bias. The bias is cached: it is
        # equal for all layers and, without a window, for all steps.
        of = (heads, window, None if window is None else end)
        if self._bias_of != of:
            first_B = self.starts_B if window is None else self.starts_B.clamp_min(end - window)
            widest = self._longest_padding() if window is None else max(self._longest_padding(), end - window)
            at = torch.arange(widest, device=first_B.device)
            hidden = (at[None] < first_B[:, None]).repeat_interleave(heads, 0)
            self._bias = torch.zeros(hidden.shape, dtype=dtype, device=at.device).masked_fill_(hidden, float("-inf"))
            self._bias_of = of
        return self._bias[:, None]

    def _longest_padding(self) -> int:
        """Return the number of padding columns in the row with the most padding. The value is cached until the rows
        change, since reading it requires waiting for the GPU."""
        if self._padding is None:
            self._padding = int(self.starts_B.max())
        return self._padding

    def _attend_many(
        self, q: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None, end: int
    ) -> Tensor:
        """Compute causal attention of several tokens per row (prefill), with padding masked."""
        width = q.shape[2]
        at = torch.arange(end, device=q.device)
        query_at = at[end - width :, None]
        seen = (at[None] <= query_at) & (True if window is None else query_at - at[None] < window)
        # a padding query attends to itself: an empty softmax is NaN, which would spread into later layers
        seen_BQS = (seen[None] & (at[None, None] >= self.starts_B[:, None, None])) | (at[None] == query_at)[None]
        gqa = keys.shape[1] != q.shape[1]
        # for transposed keys, [.., D, S], the kernel materialises all scores, with 12 times the memory and three times
        # the time
        k = keys.transpose(2, 3).contiguous()
        out = F.scaled_dot_product_attention(q, k, values, attn_mask=seen_BQS[:, None], scale=scale, enable_gqa=gqa)
        return out.transpose(1, 2)
