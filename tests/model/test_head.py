"""Chunked log-probabilities and entropies against the naive form, forward and backward, and their peak memory."""

from __future__ import annotations

import pytest
import torch

from outrider.model import head
from outrider.model.head import token_statistics
from peak import Peak


def naive(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, targets: torch.Tensor, t: float, k: int
):
    logps = (torch.nn.functional.linear(hidden, weight, bias) / t).log_softmax(-1)
    return (
        logps.gather(1, targets[:, None])[:, 0],
        -(logps.exp() * logps).sum(-1),
        logps.sort(descending=True).values[:, :k],
    )


@pytest.mark.parametrize("chunk", [1, 50, 10**6])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("top", [0, 3])
def test_values_and_gradients_are_the_naive_ones(
    chunk: int, temperature: float, with_bias: bool, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "CHUNK", chunk)
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((13, 6), (17, 6), (17,))]
    hidden, weight, bias = inputs[0], inputs[1], inputs[2] if with_bias else None
    targets = torch.randint(0, 17, (13,))
    mix, mix_top = torch.randn(2, 13, dtype=torch.float64), torch.randn(13, top, dtype=torch.float64)
    results = []
    for f in (token_statistics, naive):
        logprobs, entropies, likeliest = f(hidden, weight, bias, targets, temperature, top)
        used = inputs[: 2 + with_bias]
        mixed = (mix[0] * logprobs + mix[1] * entropies).sum() + (mix_top * likeliest).sum()
        results.append((logprobs, entropies, likeliest, *torch.autograd.grad(mixed, used)))
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11, atol=1e-12)


def test_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "CHUNK", 8)
    torch.manual_seed(1)
    hidden = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 6, 3, 3, 1])
    for top in (0, 2, 9):  # the vocabulary has 7
        assert torch.autograd.gradcheck(
            lambda h, w, k=top: token_statistics(h, w, None, targets, 0.8, k), (hidden, weight)
        )


def test_no_tokens_and_frozen_head() -> None:
    weight = torch.randn(7, 3)
    nothing = token_statistics(torch.zeros(0, 3), weight, None, torch.zeros(0, dtype=torch.int64), top=2)
    assert [tuple(part.shape) for part in nothing] == [(0,), (0,), (0, 2)]
    hidden = torch.randn(2, 3, requires_grad=True)
    token_statistics(hidden, weight, None, torch.tensor([1, 2]))[0].sum().backward()  # the head needs no gradient
    assert hidden.grad is not None


def test_an_impossible_token_has_no_nan() -> None:
    """A logit of -inf: p log p is 0 there, in the entropy and in its gradient."""
    hidden = torch.tensor([[1.0]], requires_grad=True)
    weight, bias = torch.tensor([[1.0], [2.0], [0.0]]), torch.tensor([0.0, 0.0, float("-inf")])
    logprobs, entropies, _ = token_statistics(hidden, weight, bias, torch.tensor([0]))
    (logprobs + entropies).sum().backward()
    assert torch.isfinite(entropies).all()
    assert torch.isfinite(hidden.grad).all()


@pytest.mark.parametrize("naive_form", [False, True])
def test_the_logits_of_a_chunk_are_all_that_is_held(naive_form: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive form is measured too, so that the bound cannot hold by accident."""
    T, H, V, chunk = 400, 3, 500, 10
    monkeypatch.setattr(head, "most_logits", lambda device: chunk * V)
    hidden, weight = torch.randn(T, H, requires_grad=True), torch.randn(V, H, requires_grad=True)
    targets = torch.randint(0, V, (T,))
    with Peak() as peak:
        if naive_form:
            logps = (hidden @ weight.T).log_softmax(-1)
            logprobs, entropies = logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(-1)
        else:
            logprobs, entropies, _ = token_statistics(hidden, weight, None, targets)
        (logprobs.sum() + entropies.sum()).backward()
    if naive_form:
        assert peak.most > 3 * T * V
    else:
        assert peak.most < 10 * chunk * V


def test_the_gradient_of_a_bfloat16_head_is_added_and_returned_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a float32 weight, whose small gradients of many tokens bfloat16 would round away."""
    T, H, V = 64, 16, 50
    hidden, weight = torch.randn(T, H).bfloat16(), torch.randn(V, H, requires_grad=True)
    targets = torch.randint(0, V, (T,))
    token_statistics(hidden, weight, None, targets)[0].sum().backward()
    low = weight.detach().bfloat16()
    probs = (hidden @ low.T).float().softmax(-1)
    change = (torch.nn.functional.one_hot(targets, V) - probs).bfloat16()
    want = change.double().T @ hidden.double()
    assert weight.grad.dtype is torch.float32
    # the type of a product is bfloat16, so its own rounding remains; more chunks, less of it
    monkeypatch.setattr(head, "CHUNK", 4 * V)
    whole, weight.grad = weight.grad, None
    token_statistics(hidden, weight, None, targets)[0].sum().backward()
    assert (weight.grad - want).abs().max() < 0.02 > 0.2 * (whole - want).abs().max()
    assert not torch.equal(weight.grad, weight.grad.bfloat16().float())


def test_the_gradient_of_the_head_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it no product of its size, and no copy."""
    T, H, V = 40, 100, 500
    monkeypatch.setattr(head, "CHUNK", 2 * V)
    hidden, weight = torch.randn(T, H, requires_grad=True), torch.randn(V, H, requires_grad=True)
    with Peak() as peak:
        token_statistics(hidden, weight, None, torch.randint(0, V, (T,)))[0].sum().backward()
    assert V * H < peak.most < 1.5 * V * H
