"""A learner on a GPU waits for the GPU a fixed number of times per update, not once per micro-batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from outrider.objective import AGGREGATES, SELECTIONS, SURROGATES, Truncate
from policy_rows import learner, ragged_rows
from small import random_model

WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "bincount"}
WAITS |= {"_unique2", "unique_dim", "unique_consecutive", "repeat_interleave"}
"""Operations whose result, or its shape, a process reads."""


class Waits(TorchDispatchMode):
    """Counts operations for which a process would wait for a GPU; on a CPU they are the same operations."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name in ("index", "index_put", "index_put_") and any(
            i is not None and i.dtype is torch.bool for i in args[1]
        )
        of_known_size = name == "repeat_interleave" and (kwargs or {}).get("output_size") is not None
        self.counts[name] += by_mask or (name in WAITS and not of_known_size)
        return func(*args, **(kwargs or {}))


def waits(objective: dict[str, object], micro_tokens: int, **options: object) -> tuple[Counter[str], int]:
    """Operations of one update that wait, and its number of micro-batches."""
    made = learner(random_model("qwen2"), {"correction": None, **objective}, micro_tokens=micro_tokens, **options)
    batch = ragged_rows(24)
    passes: list[int] = []
    forward = made._forward
    made._forward = lambda *a: (passes.append(1), forward(*a))[1]  # type: ignore[method-assign]
    with Waits() as counted, read_by_the_host() as reads:
        assert made.update(batch).metrics["updates"] == 1
    return +(counted.counts + reads), len(passes)


@contextmanager
def read_by_the_host() -> Iterator[Counter[str]]:
    """Counts methods that copy a tensor to the host; on a CPU they copy nothing, and no operation shows."""
    reads = Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cpu", "tolist", "numpy"):
            real = getattr(torch.Tensor, name)
            patch.setattr(
                torch.Tensor, name, lambda *a, name=name, real=real, **k: (reads.update([name]), real(*a, **k))[1]
            )
        yield reads


OBJECTIVES: list[dict[str, object]] = [
    *({"surrogate": {name: {}}} for name in SURROGATES),
    *({"select": {name: {}}} for name in SELECTIONS),
    *({"aggregate": {name: {}}} for name in AGGREGATES),
    {"kl": 0.1},
    {"entropy": {"bonus": 0.01}},
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_waits_do_not_grow_with_micro_batches(objective: dict[str, object], checkpointing: bool) -> None:
    few, passes = waits(objective, 10_000, gradient_checkpointing=checkpointing)
    many, more_passes = waits(objective, 30, gradient_checkpointing=checkpointing)
    assert more_passes > passes + 3
    assert few, "the norm of the gradient is read once"
    assert many == few


def test_a_correction_waits_once_per_micro_batch() -> None:
    """Components compute weights in NumPy, so log-probabilities and flags are copied to the host together."""
    (few, passes), (many, more_passes) = (waits({"correction": Truncate()}, tokens) for tokens in (10_000, 30))
    assert {name: many[name] - few[name] for name in many} == {
        name: 2 * (more_passes - passes) if name in ("cpu", "numpy") else 0 for name in many
    }
