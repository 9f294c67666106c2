"""The compiled head against the naive form and against the plain head; it was never run on a GPU."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace

import pytest
import torch

from outrider.config import load_recipe
from outrider.config.sft import load_sft
from outrider.errors import UserError
from outrider.learn.local import LocalLearner
from outrider.learn.sft import imitating
from outrider.model import compiled_head, head
from outrider.model.compiled_head import check_compiled, compiled_statistics
from outrider.model.compute import PACKED, ComputePath
from outrider.model.device import Placement
from outrider.model.head import token_statistics
from outrider.model.tiny import tiny_policy
from outrider.processes.ranks import Ranks
from outrider.record import Mode
from outrider.sample.ready import ready
from outrider.train.engines import open_learner
from policy_rows import learner, ragged_rows
from small import random_model


def compiles(test):
    """Compiling takes seconds, and on a CPU a C++ compiler."""
    there = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
    return pytest.mark.slow(there(test))


@compiles
@pytest.mark.parametrize("chunk", [50, 10**6])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("used", ["log-probabilities", "entropies", "both"])
def test_values_and_gradients_are_the_naive_ones(
    chunk: int, temperature: float, with_bias: bool, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "CHUNK", chunk)
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((13, 6), (17, 6), (17,))]
    hidden, weight, bias = inputs[0], inputs[1], inputs[2] if with_bias else None
    targets, mix = torch.randint(0, 17, (13,)), torch.randn(2, 13, dtype=torch.float64)
    results = []
    logps = (torch.nn.functional.linear(hidden, weight, bias) / temperature).log_softmax(-1)
    naive = logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(-1)
    for logprobs, entropies in (compiled_statistics(hidden, weight, bias, targets, temperature)[:2], naive):
        parts = {"log-probabilities": (mix[0] * logprobs).sum(), "entropies": (mix[1] * entropies).sum()}
        loss = parts[used] if used in parts else sum(parts.values())
        results.append((logprobs, entropies, *torch.autograd.grad(loss, inputs[: 2 + with_bias])))
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11, atol=1e-12)


@compiles
def test_an_impossible_token_has_no_nan() -> None:
    """As in the plain head: logits of -inf, by a bias."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    bias, targets = torch.tensor([0.0, -torch.inf, 0, 0, 0, 0]), torch.tensor([0, 2, 1])
    found = []
    for how in (compiled_statistics, token_statistics):
        logprobs, entropies, _ = how(hidden, weight, bias, targets, 0.7)
        found.append(
            [logprobs, entropies, *torch.autograd.grad(logprobs[:2].sum() + entropies.sum(), (hidden, weight))]
        )
    assert found[0][0][2] == -torch.inf
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert not ours.isnan().any()


@compiles
def test_the_gradient_of_a_bfloat16_head_is_returned_in_float32() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(40, 16, dtype=torch.bfloat16), torch.randn(50, 16, requires_grad=True)
    targets = torch.randint(0, 50, (40,))
    grads = [
        torch.autograd.grad(how(hidden, weight, None, targets).logprobs_T.sum(), weight)[0]
        for how in (compiled_statistics, token_statistics)
    ]
    assert grads[0].dtype is torch.float32
    assert float((grads[0] - grads[1]).abs().max() / grads[1].abs().max()) < 0.02


@compiles
def test_an_update_has_the_gradient_of_the_plain_head() -> None:
    model, grads = random_model("qwen2").double(), []
    for path in (PACKED, PACKED._replace(compiled=True)):
        made = learner(copy.deepcopy(model), {"entropy": {"bonus": 0.01}})
        made.held.path = path
        made.update([replace(row, mode=Mode(0.7)) for row in ragged_rows()])
        grads.append(torch.cat([p.grad.reshape(-1) for p in made.parameters]))
    assert torch.allclose(*grads, rtol=1e-9, atol=1e-12)
    assert float(grads[0].abs().max()) > 0


@compiles
def test_a_head_that_compiles_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_compiled(torch.device("cpu"), torch.float32)
    right = compiled_head._compiled()
    for name, wrong in (
        ("log-probabilities", right._replace(statistics=lambda *a: tuple(1.01 * x for x in right.statistics(*a)))),
        ("gradients", right._replace(gradient=lambda *a: 1.01 * right.gradient(*a))),
    ):
        monkeypatch.setattr(compiled_head, "_compiled", lambda wrong=wrong: wrong)
        with pytest.raises(UserError, match=f"the compiled head's {name} differ"):
            check_compiled(torch.device("cpu"), torch.float32)


def test_a_machine_that_cannot_compile_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(compiled_head, "_compiled", none)
    with pytest.raises(UserError, match=r"fails on this machine \(no compiler\); set learn.compile=false"):
        check_compiled(torch.device("cpu"), torch.float32)


def test_a_policy_loss_that_reads_the_likeliest_tokens_is_refused() -> None:
    with pytest.raises(UserError, match=r"learn.compile: the compiled head has no likeliest tokens"):
        load_recipe("grpo", ["learn.compile=true", "objective.surrogate=simko"])


def test_learn_compile_compiles_the_head_of_the_learner_that_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked where the learner trains: a sharded policy is loaded into host memory first."""
    checked: list[tuple[str, torch.dtype]] = []
    monkeypatch.setattr(compiled_head, "check_compiled", lambda device, dtype: checked.append((str(device), dtype)))
    here = Placement(torch.device("meta"), torch.bfloat16, "sdpa")
    monkeypatch.setattr("outrider.train.engines.placement", lambda dtype="float32": here)
    policy = ready(tiny_policy(seed=0))[0]
    for compiled in (False, True):
        recipe = load_recipe("grpo", [f"learn.compile={str(compiled).lower()}"])
        made = open_learner(recipe, policy, Ranks())
        assert isinstance(made, LocalLearner)
        assert (made.path.compiled, made.held.path.compiled) == (compiled, compiled)  # type: ignore[attr-defined]
    assert checked == [("meta", torch.bfloat16)]
    with pytest.raises(UserError, match="the model computes on the plain path; set it to false"):
        open_learner(recipe, policy._replace(path=ComputePath("plain")), Ranks())
    options = load_sft("countdown", {"base": "base:countdown", "learn.lr": 1e-3, "learn.compile": True})
    assert imitating(policy, options).path.compiled
    assert len(checked) == 2
