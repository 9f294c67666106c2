"""Packed rows: a context that several of them begin with is computed once, and nothing else changes."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.model import attention
from outrider.model.attention import Packed, use_plans
from outrider.model.compute import PACKED
from outrider.model.forward import Continuation, own_statistics
from outrider.model.packing import pack
from small import VOCABULARY, random_model

ids = st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=6).map(lambda i: np.array(i, np.int32))
contexts = st.lists(ids, min_size=1, max_size=3)


@st.composite
def sequences(draw: st.DrawFn) -> list[Continuation]:
    """Rows of few contexts, some of which begin with another one."""
    begun = draw(contexts)
    begun += [np.concatenate([begun[0], more]) for more in draw(contexts)]
    chosen = draw(st.lists(st.integers(0, len(begun) - 1), min_size=1, max_size=8))
    return [Continuation(begun[i], draw(ids)) for i in chosen]


@given(sequences())
def test_places_spell_every_sequence(rows: list[Continuation]) -> None:
    packing = pack(rows)
    whole = [np.concatenate(row) for row in rows]
    assert packing.ids_T[packing.places_E].tolist() == np.concatenate(whole).tolist()
    assert packing.positions_T[packing.places_E].tolist() == [i for row in whole for i in range(len(row))]
    assert packing.ids_T[packing.own_N].tolist() == np.concatenate([row.token_ids for row in rows]).tolist()
    before = [ids[len(row.context_ids) - 1 : -1] for ids, row in zip(whole, rows, strict=True)]
    assert packing.ids_T[packing.before_N].tolist() == np.concatenate(before).tolist()
    distinct = {tuple(row.context_ids) for row in rows}
    assert len(packing.ids_T) == sum(map(len, distinct)) + sum(len(row.token_ids) for row in rows)
    assert packing.shares == (len(distinct) < len(rows))


@given(sequences(), st.sampled_from(["qwen2", "qwen3", "llama"]))
def test_shared_contexts_change_no_logprob_and_no_gradient(rows: list[Continuation], family: str) -> None:
    """In float64, so that a context that saw another row would show in its log-probabilities."""
    model = random_model(family).double()
    use_plans(model)

    def results(parts: list[list[Continuation]]) -> tuple[torch.Tensor, torch.Tensor]:
        model.zero_grad()
        found = [own_statistics(model, PACKED, part, torch.float32) for part in parts]
        logprobs_N, entropies_N = (torch.cat([each[i] for each in found]) for i in (0, 1))
        # weights that differ, or errors of two siblings could cancel
        weights_N = torch.linspace(-1, 2, len(logprobs_N), dtype=torch.float64)
        (weights_N * (logprobs_N + 0.1 * entropies_N)).sum().backward()
        return logprobs_N.detach(), torch.cat([p.grad.reshape(-1) for p in model.parameters()])

    (logprobs_N, gradient), (alone_N, gradient_alone) = results([rows]), results([[row] for row in rows])
    torch.testing.assert_close(logprobs_N, alone_N, rtol=1e-9, atol=1e-12)
    # transformers' norms round to float32: of a sum over siblings here, of each sibling there
    torch.testing.assert_close(gradient, gradient_alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [None, 3])
def test_unpadded_attention_is_the_padded_one(window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the naive attention of flash_attn's interface, which needs a GPU itself."""

    def varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal, window_size
    ) -> torch.Tensor:
        assert causal
        assert cu_seqlens_q is cu_seqlens_k
        assert cu_seqlens_q.dtype == torch.int32
        assert cu_seqlens_q[-1] == len(q)
        assert max_seqlen_q == max_seqlen_k == cu_seqlens_q.diff().max()
        out = torch.empty_like(q)
        for start, end in pairwise(cu_seqlens_q.tolist()):
            keys, values = (x[start:end].repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
            at = torch.arange(end - start)
            gap = at[:, None] - at
            left = window_size[0] if window_size[0] >= 0 else len(at)
            scores = torch.einsum("qhd,khd->hqk", q[start:end], keys) * softmax_scale
            weights = scores.masked_fill((gap < 0) | (gap > left), float("-inf")).softmax(-1)
            out[start:end] = torch.einsum("hqk,khd->qhd", weights, values)
        return out

    torch.manual_seed(0)
    short, long = np.array([4, 5], np.int32), np.array([4, 5, 6, 7, 8], np.int32)
    rows = [Continuation(c, np.arange(n, dtype=np.int32)) for c, n in ((short, 1), (long, 2), (short, 4), (long, 1))]
    for packing in (pack(rows), pack(rows[:2])):
        plan = Packed(packing, torch.device("cpu"))
        q, k, v = (torch.randn(1, heads, len(packing.ids_T), 8) for heads in (4, 2, 2))
        want = plan.attend(0, q, k, v, 0.3, window)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_varlen_func=varlen))
            patch.setattr(attention, "attention_on", lambda device, dtype: "flash_attention_2")
            assert torch.allclose(plan.attend(0, q, k, v, 0.3, window), want, atol=1e-6)
