"""How often the host asks a device for a number. On a GPU each time it waits, and then the GPU waits for the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from outrider.learn.local import LocalLearner
from outrider.learn.options import LearnOptions
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.record.row import WeightedRow
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.sample.store import Store
from small import random_policy, request

ASKS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2"}


class Waits(TorchDispatchMode):
    """Counts operations that need a number from the device before they can go on."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        lengths = func is torch.ops.aten.repeat_interleave.Tensor and kwargs.get("output_size") is None
        self.count += lengths or func.__name__.partition(".")[0] in ASKS
        return func(*args, **kwargs)


def waits(work: Callable[[], object]) -> int:
    with Waits() as seen:
        work()
    return seen.count


def rows(n: int) -> list[WeightedRow]:
    rng = np.random.default_rng(0)
    return [
        WeightedRow(
            context_ids=rng.integers(5, 30, 3).astype(np.int32),
            token_ids=rng.integers(5, 30, 7).astype(np.int32),
            old_logprobs_N=np.full(7, -3.0, np.float32),
            advantages_N=np.full(7, float(rng.normal())),
            trainable_N=np.ones(7, np.bool_),
            group=f"g{i}",
        )
        for i in range(n)
    ]


@pytest.mark.parametrize(
    "objective",
    [
        {},
        {"kl": 0.1},
        {"surrogate": {"clip": {"low": 0.2, "high": 0.2, "ratio": "sequence"}}},
        {"correction": {"truncate": {}}},
        {"entropy": {"bonus": 0.01}},
    ],
    ids=str,
)
def test_a_learner_waits_once_in_an_optimizer_batch(objective: dict[str, Any]) -> None:
    counts = []
    for micro_tokens in (1000, 10):  # one micro-batch, and one for each row
        policy = ready(random_policy())[0]
        options = LearnOptions(micro_tokens=micro_tokens)
        learner = LocalLearner(policy.model, options, PolicyLoss(ObjectiveOptions(**objective), 24), path=policy.path)
        learner.update(rows(8))
        counts.append(waits(lambda learner=learner: learner.update(rows(8))))
    assert counts[0] == counts[1] < 4


@pytest.mark.parametrize("path", ["fused", "packed"])
def test_a_sampler_waits_when_it_looks_for_ended_rows(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And when its store grows, each 32 tokens."""
    monkeypatch.setattr("outrider.sample.wave.looks_every", lambda device: 8)
    policy = ready(random_policy(), path)[0]
    asked = [request(str(i), [1, 8, 9, 10][: 2 + i], n=4) for i in range(3)]
    counts = []
    for tokens in (8, 24):
        sampler = LocalSampler(policy, SampleOptions(max_tokens=tokens))
        sample = LocalSampler.sample.__wrapped__  # inference mode hides what is read
        with torch.no_grad():
            counts.append(waits(lambda sampler=sampler, sample=sample: sample(sampler, asked)))
    assert counts[1] - counts[0] <= 2 * 3, "of 16 tokens more: two looks, each with rows that are dropped"


def test_a_store_with_a_window_asks_for_its_padding_once() -> None:
    """Alternating layers: of one kind the bias is new at each token."""
    torch.manual_seed(0)
    store = Store(torch.tensor([3, 0]), 64, 2)
    q, k, v = (torch.randn(2, 2, 6, 8) for _ in range(3))
    for layer in range(2):
        store.attend(layer, q, k, v, 1.0, None)
    store.column = 6

    def tokens() -> None:
        for _ in range(20):
            for layer, window in enumerate((None, 5)):
                store.attend_one(layer, q[:, :, :1].flatten(0, 1), k[:, :, 0], v[:, :, 0], 1.0, window)
            store.column += 1

    assert waits(tokens) == 1
    store.keep(torch.tensor([1]), 64)
    q, k, v = q[:1], k[:1], v[:1]
    assert waits(tokens) == 1, "of other rows"
