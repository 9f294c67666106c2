"""A pass that memory does not hold is made smaller, and the step goes on."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.errors import UserError
from outrider.learn.learner import Loss
from outrider.learn.local import LocalLearner
from outrider.learn.memory_guard import Passes, available, memory_limit, ran_out
from outrider.learn.options import LearnOptions
from outrider.learn.processes import OneProcess
from outrider.model.attention import use_plans
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import ImitationLoss, PolicyLoss
from outrider.record.row import WeightedRow, imitation_row
from small import random_model

MIB = 2**20
WIDE = {"hidden_size": 64, "intermediate_size": 16_384, "num_hidden_layers": 1, "max_position_embeddings": 512}
LENGTH = 200


def wide_learner(micro_tokens: int = 32_768, loss: Loss | None = None, **options: object) -> LocalLearner:
    """Its activations take about 260 kB for a token, in blocks too large for what earlier tests have left."""
    model = random_model("llama", **WIDE)
    use_plans(model)
    return LocalLearner(model, LearnOptions(micro_tokens=micro_tokens, lr=1e-5, **options), loss or ImitationLoss())


def long_rows(n: int = 24) -> list[WeightedRow]:
    rng = np.random.default_rng(0)
    return [
        imitation_row(rng.integers(3, 32, 2).astype(np.int32), rng.integers(3, 32, LENGTH - 2).astype(np.int32))
        for _ in range(n)
    ]


def leave(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that so many bytes are available. On Linux nothing else is: what was freed is given back first."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    monkeypatch.setattr("outrider.learn.local.available", lambda: free)


def gradient(learner: LocalLearner) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1) for p in learner.parameters])


def test_a_pass_that_memory_does_not_hold_is_halved_and_the_gradient_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4,800 tokens take about 1.2 GB; the allocator itself refuses them."""
    want = wide_learner(micro_tokens=1000)
    want.update(long_rows())
    ours = wide_learner()
    leave(400 * MIB, monkeypatch)
    updated = ours.update(long_rows())
    assert updated.metrics["updates"] == 1.0
    assert LENGTH <= ours.passes.tokens < 4800
    assert updated.notices == [f"out of memory in the backward pass: continuing with {ours.passes}"]
    torch.testing.assert_close(gradient(ours), gradient(want), rtol=1e-4, atol=1e-7)
    assert ours.update(long_rows()).notices == ()  # said once


def test_a_correction_in_a_pass_that_is_repeated_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with one update corrects importance weights in the pass that runs out of memory."""
    rng, loss = np.random.default_rng(1), PolicyLoss(ObjectiveOptions(correction="truncate"), LENGTH)
    rows = [
        replace(
            row,
            advantages_N=np.full(len(row.token_ids), 1.0 if i % 2 else -1.0),
            old_logprobs_N=rng.normal(-3.5, 0.3, len(row.token_ids)).astype(np.float32),
        )
        for i, row in enumerate(long_rows())
    ]
    want, ours = wide_learner(1000, loss), wide_learner(loss=loss)
    expected = want.update(rows)
    leave(400 * MIB, monkeypatch)
    updated = ours.update(rows)
    assert updated.notices
    assert updated.metrics["weight_p99"] > 1.1
    assert updated.metrics == pytest.approx(expected.metrics, rel=1e-3, abs=1e-6)
    torch.testing.assert_close(gradient(ours), gradient(want), rtol=1e-4, atol=1e-7)


def test_what_no_pass_can_hold_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    learner = wide_learner()
    monkeypatch.setattr(learner.held, "statistics", refused)
    with pytest.raises(UserError, match=r"a pass of 200 tokens, .* does not fit in memory"):
        learner.update(long_rows(2))


def test_smaller_passes_are_kept_in_a_checkpoint(tmp_path: Path) -> None:
    learner = wide_learner()
    learner.update(long_rows(1))
    whole, smaller = tmp_path / "whole", tmp_path / "smaller"
    for folder in (whole, smaller):
        folder.mkdir()
        learner.save(folder)
        learner._take(Passes(32_768, True))  # as large as before, recomputed
    resumed, unlimited, other = wide_learner(), wide_learner(), wide_learner(micro_tokens=300)
    resumed.load(smaller)
    unlimited.load(whole)
    other.load(smaller)
    assert resumed.passes == Passes(32_768, True)
    assert unlimited.passes == Passes(32_768, False)
    assert other.passes == Passes(300, False)  # the options win


def test_passes_shrink_to_the_longest_row_and_are_then_recomputed() -> None:
    passes, seen = Passes(1000, False), []
    for _ in range(3):
        passes = passes.smaller(passes.tokens, longest=300)
        seen.append((passes.tokens, passes.recomputed))
    assert seen == [(500, False), (300, False), (300, True)]
    with pytest.raises(UserError):
        passes.smaller(300, longest=300)


def test_only_errors_of_memory_count() -> None:
    assert ran_out(MemoryError())
    assert ran_out(torch.OutOfMemoryError("CUDA out of memory."))
    assert not ran_out(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError) as raised, memory_limit(available()):
        torch.empty(1 << 50, dtype=torch.uint8)
    assert ran_out(raised.value)


def test_the_limit_ends_with_its_block() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_limit(available()):
        inside = resource.getrlimit(resource.RLIMIT_DATA)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert inside != before or available() is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 5 kB\nSwapFree: 2 kB\n"}, 7 * 1024),
        ({"proc/meminfo": "MemAvailable: 5 kB\n"}, 5 * 1024),
        ({"proc/meminfo": "MemTotal: 9 kB\n"}, None),
        ({}, None),
        (
            {
                "proc/meminfo": "MemAvailable: 5 kB\n",
                "sys/fs/cgroup/memory.max": "3000",
                "sys/fs/cgroup/memory.current": "1500",
                "sys/fs/cgroup/memory.stat": "anon 1000\ninactive_file 500\n",
            },
            2000,
        ),
        ({"proc/meminfo": "MemAvailable: 5 kB\n", "sys/fs/cgroup/memory.max": "max"}, 5 * 1024),
    ],
)
def test_available_memory_is_that_of_the_container(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert available(tmp_path) == expected


def test_all_ranks_begin_again_where_one_ran_out() -> None:
    """Gradients are added over ranks, so all have to be of the same passes of the same rows."""

    class OtherRanOut(OneProcess):
        size, asked = 2, 0

        def sum_(self, values: torch.Tensor) -> torch.Tensor:
            self.asked += 1
            if self.asked == 2:  # after what is free: how many ran out, then the diagnostics
                values[0] += 1
            return values

    model = random_model("llama", **WIDE)
    use_plans(model)
    learner = LocalLearner(model, LearnOptions(micro_tokens=1000), ImitationLoss(), OtherRanOut())
    passes: list[int] = []
    learner.model.get_decoder().register_forward_pre_hook(
        lambda module, args, inputs: passes.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    assert learner.update(long_rows(4)).notices
    assert learner.passes == Passes(400, False)  # half of the 800 tokens of the batch
    assert passes == [400, 400]  # this rank has two of the four rows
