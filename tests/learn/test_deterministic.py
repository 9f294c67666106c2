"""Gradients that are the same to the last bit, and what PyTorch has no such algorithm for."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from outrider.errors import UserError
from outrider.learn.deterministic import deterministic_algorithms
from outrider.objective.policy_loss import PolicyLoss
from policy_rows import learner, ragged_rows
from small import random_model


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("fills", [True, False])
def test_the_callers_switches_are_as_they_were(mode: int, fills: bool) -> None:
    memory: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory
    torch.set_deterministic_debug_mode(mode)
    memory.fill_uninitialized_memory = fills
    try:
        with deterministic_algorithms():
            assert (torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory) == (2, False)
        with deterministic_algorithms(False):
            assert (torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory) == (mode, fills)
        with pytest.raises(RuntimeError, match="size of tensor"), deterministic_algorithms():
            torch.ones(2) + torch.ones(3)
        assert (torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory) == (mode, fills)
    finally:
        torch.set_deterministic_debug_mode(before[0])
        memory.fill_uninitialized_memory = before[1]


def test_what_an_older_pytorch_wants_is_named() -> None:
    told = "this operation is not deterministic because it uses CuBLAS ... CUBLAS_WORKSPACE_CONFIG=:4096:8"
    with (
        pytest.raises(UserError, match=r"requires the environment variable CUBLAS_WORKSPACE_CONFIG=:4096:8"),
        deterministic_algorithms(),
    ):
        raise RuntimeError(told)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_learner_computes_a_gradient_so_where_it_is_told_to(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(self: PolicyLoss, *arguments: Any) -> Any:
        torch.zeros(2).put_(torch.tensor([0, 0]), torch.ones(2))
        return call(self, *arguments)

    call = PolicyLoss.__call__
    monkeypatch.setattr(PolicyLoss, "__call__", loss)
    made = learner(random_model("qwen2"), deterministic=wanted)
    if not wanted:
        assert made.update(ragged_rows()).metrics["updates"] == 1.0
        return
    with pytest.raises(
        UserError, match=r"^learn\.deterministic=true: PyTorch has no .* algorithm for put_; leave it false$"
    ):
        made.update(ragged_rows())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="on a CPU it is so by itself")
def test_two_updates_from_the_same_weights_are_the_same_bits() -> None:
    model = random_model("qwen2").to("cuda")
    ends = []
    for _ in range(4):
        one = copy.deepcopy(model)
        learner(one, deterministic=True).update(ragged_rows(200))
        ends.append([p.detach().cpu() for p in one.parameters()])
    assert all(torch.equal(a, b) for end in ends[1:] for a, b in zip(ends[0], end, strict=True))
