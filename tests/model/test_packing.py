"""Packed rows: a context that several of them begin with is computed once, and nothing else changes."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.model import unpadded
from outrider.model.attention import Packed, use_plans
from outrider.model.compute import PACKED
from outrider.model.forward import Continuation, own_statistics
from outrider.model.packing import pack
from outrider.model.unpadded import UNPADDED
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


def naive(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa) -> torch.Tensor:
    """What ``torch.nn.attention.varlen.varlen_attn`` documents, which needs a GPU itself."""
    assert cu_seq_q is cu_seq_k
    assert cu_seq_q.dtype == torch.int32
    assert cu_seq_q[-1] == len(q)
    assert max_q == max_k == cu_seq_q.diff().max()
    assert enable_gqa == (q.shape[1] != k.shape[1])
    assert all(x.is_contiguous() for x in (q, k, v))
    assert window_size[1] == 0, "causal"
    parts = []
    for start, end in pairwise(cu_seq_q.tolist()):
        keys, values = (x[start:end].repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        at = torch.arange(end - start)
        gap = at[:, None] - at
        left = window_size[0] if window_size[0] >= 0 else len(at)
        scores = torch.einsum("qhd,khd->hqk", q[start:end], keys) * scale
        weights = scores.masked_fill((gap < 0) | (gap > left), float("-inf")).softmax(-1)
        parts.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(parts)


def naive_flash(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal, window_size
) -> torch.Tensor:
    """The same by the interface of flash_attn."""
    assert causal
    lengths, grouped = (max_seqlen_q, max_seqlen_k), q.shape[1] != k.shape[1]
    window = (window_size[0], 0)
    return naive(
        q, k, v, cu_seqlens_q, cu_seqlens_k, *lengths, scale=softmax_scale, window_size=window, enable_gqa=grouped
    )


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    varlen: ModuleType = pytest.importorskip("torch.nn.attention.varlen")
    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_varlen_func=naive_flash))
    monkeypatch.setattr(varlen, "varlen_attn", naive)
    return varlen


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", UNPADDED)
@pytest.mark.parametrize("window", [None, 3])
def test_unpadded_attention_is_the_padded_one(name: str, window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    short, long = np.array([4, 5], np.int32), np.array([4, 5, 6, 7, 8], np.int32)
    rows = [Continuation(c, np.arange(n, dtype=np.int32)) for c, n in ((short, 1), (long, 2), (short, 4), (long, 1))]
    for packing in (pack(rows), pack(rows[:2])):
        plan = Packed(packing, torch.device("cpu"))
        leaves = [torch.randn(1, heads, len(packing.ids_T), 8, requires_grad=True) for heads in (4, 2, 2)]
        want = plan.attend(0, *leaves, 0.3, window)
        grads = torch.autograd.grad(want.sin().sum(), leaves)
        with monkeypatch.context() as patch:
            patch.setattr(unpadded, "attention_on", lambda device, dtype: name)
            found = plan.attend(0, *leaves, 0.3, window)
            torch.testing.assert_close(found, want, atol=1e-6, rtol=0)
            for a, b in zip(torch.autograd.grad(found.sin().sum(), leaves), grads, strict=True):
                torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
            odd = leaves[0][..., :6]  # PyTorch's kernel has no code for such a head
            assert (unpadded.kernel_for(odd) is None) == (name == "varlen")


@pytest.mark.parametrize("window", [None, 3])
def test_a_kernel_is_compared_with_sdpa_before_its_first_use(
    window: int | None, kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gap() -> float:
        return unpadded.gap_to_sdpa(unpadded.varlen_attn, torch.device("cpu"), torch.bfloat16, window)

    def agrees() -> bool:
        unpadded._varlen_agrees.cache_clear()
        return unpadded._varlen_agrees(torch.device("cpu"), torch.bfloat16)

    assert 0 < gap() < unpadded._BOUND
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert agrees()
    wrong = {
        "reversed": lambda *a, **k: naive(*a, **k).flip(0),
        "another scale": lambda *a, **k: naive(*a, **{**k, "scale": 1.3 * k["scale"]}),
        "one token more": lambda *a, **k: naive(*a, **{**k, "window_size": (k["window_size"][0] + 1, 0)}),
        "NaN": lambda *a, **k: naive(*a, **k) * float("nan"),
        "NaN gradients": lambda *a, **k: naive(*a, **k) + (0 * a[0]).sum().sqrt() * 0,
        "NaN of a window": lambda *a, **k: naive(*a, **k) * (float("nan") if k["window_size"][0] >= 0 else 1.0),
        "wrong gradients": lambda *a, **k: 2 * naive(*a, **k) - naive(*a, **k).detach(),
    }
    for name, kernel in wrong.items():
        if name in ("one token more", "NaN of a window") and window is None:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "varlen_attn", kernel)
            assert not gap() <= unpadded._BOUND, name
            assert not agrees()

    def absent(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "varlen_attn", absent)
        assert not agrees()
    unpadded._varlen_agrees.cache_clear()


def test_pytorch_takes_the_arguments_of_its_kernel() -> None:
    """On meta tensors, which need no GPU."""
    if not unpadded._has_varlen():
        pytest.skip("this version of PyTorch has no such kernel")
    q, k = (torch.empty(7, heads, 16, device="meta", dtype=torch.bfloat16) for heads in (4, 2))
    bounds = torch.empty(3, device="meta", dtype=torch.int32)
    for window in (None, 3):
        assert unpadded.varlen_attn(q, k, k, bounds, 4, 0.25, window).shape == q.shape
    assert unpadded.attention_on(torch.device("cpu"), torch.bfloat16) == "sdpa"
