"""KV cache while rows end and the store grows, and the sampler's copy while it is renewed: held once."""

from __future__ import annotations

import pytest
import torch

from outrider.sample.fused import FusedDecoder
from outrider.sample.store import Store
from peak import Peak
from small import random_model


def test_a_store_grows_and_thins_out_a_layer_at_a_time() -> None:
    """Two whole stores would not fit where one does."""
    layers, rows = 8, 6
    with Peak() as peak:
        store = Store(torch.zeros(rows, dtype=torch.int64), 64, layers)
        for layer in range(layers):
            store._write(layer, torch.randn(rows, 2, 64, 4), torch.randn(rows, 2, 64, 4))
        store.column = 64
        held = peak.alive
        peak.most = 0
        store.keep(torch.arange(rows - 1), 72)
        assert peak.most < 1.3 * held
        store.keep(torch.arange(rows - 2), 72)
        assert peak.most < 1.3 * held


@pytest.mark.parametrize(("heads", "shared"), [(8, 8), (12, 2)])
def test_prefill_holds_no_attention_scores(heads: int, shared: int) -> None:
    rows, tokens, dim = 4, 256, 8
    store = Store(torch.zeros(rows, dtype=torch.int64), tokens, 1)
    q, k, v = (torch.randn(rows, n, tokens, dim) for n in (heads, shared, shared))
    with Peak() as peak:
        store.attend(0, q, k, v, 1.0, None)
    assert peak.most < rows * heads * tokens * tokens


@pytest.mark.parametrize("columns", [3, 5])
def test_keeping_is_spreading_in_place(columns: int) -> None:
    store = Store(torch.tensor([0, 2, 1]), 3, 2)
    for layer in range(2):
        store._write(layer, torch.randn(3, 2, 3, 4), torch.randn(3, 2, 3, 4))
    store.column = 3
    store._hidden(1, 3, None, torch.float32)  # kept between steps, and stale after a row is gone
    rows = torch.tensor([2, 0])
    spread = store.spread(rows, columns)
    store.keep(rows, columns)
    assert (store.columns, store.column, store.rows) == (spread.columns, spread.column, spread.rows) == (columns, 3, 2)
    assert store.starts_B.tolist() == spread.starts_B.tolist() == [1, 0]
    for one, other in zip([*store.keys, *store.values], [*spread.keys, *spread.values], strict=True):
        used = (..., slice(3)) if one.shape[-1] == columns else (slice(None), slice(None), slice(3))
        assert torch.equal(one[used], other[used])
    assert len(store._hidden(1, 3, None, torch.float32)) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_of_the_weights_is_renewed_a_layer_at_a_time(dtype: torch.dtype) -> None:
    model = random_model("qwen2", num_hidden_layers=16, hidden_size=64, intermediate_size=160, head_dim=16)
    with Peak() as peak:
        decoder = FusedDecoder(model, dtype)
        held = peak.alive
        peak.most = 0
        decoder.updated()
    assert peak.most < 1.3 * held
