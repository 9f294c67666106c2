"""What a learner keeps however its weights are held: two processes with shares of the weights are one with all."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sharded_mains
from outrider.errors import UserError
from outrider.processes.launch import RankMain, launch
from sharded_mains import Trial

STEPS = 10
TRIALS = {
    "full weights": Trial(),
    "an untied head, and a reference": Trial("llama", tied=False, kl=0.1),
    "an adapter": Trial("qwen3", lora=True),
    "an adapter, a reference, layers computed twice": Trial(lora=True, kl=0.1, checkpointing=True),
    "one large micro-batch": Trial(micro_tokens=10_000, rows=11),
}


class Trained(NamedTuple):
    """What came of a training: whole weights, an adapter added, and what the learner said, also before."""

    weights: dict[str, torch.Tensor]
    untrained: list[np.ndarray]
    metrics: list[dict[str, float]]
    logprobs: list[np.ndarray]
    seen: list[list[np.ndarray | None]]


def launched(ranks: int, main: RankMain, *arguments: Any) -> int:
    if torch.cuda.is_available() and (there := torch.cuda.device_count()) < ranks:
        pytest.skip(f"{ranks} ranks need as many GPUs, and here are {there}")
    return launch(ranks, main, *arguments)


def trained(
    trial: Trial, ranks: int, sharded: bool, out: Path, steps: int = STEPS, start: Path | None = None
) -> Trained:
    assert launched(ranks, sharded_mains.train, trial, sharded, steps, out, start) == 0
    result = pickle.loads((out / "result").read_bytes())
    return Trained(load_file(out / "export" / "model.safetensors"), **result)


# full weights and an adapter, each once; the others are more of the same
QUICK = ("full weights", "an adapter, a reference, layers computed twice")
MARKED = [
    pytest.param(trial, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, trial in TRIALS.items()
]


@pytest.fixture(scope="module")
def whole_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Trial], Trained]:
    """What comes of a training of all weights in one process."""
    return cache(lambda trial: trained(trial, 1, False, tmp_path_factory.mktemp("one")))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("trial", MARKED)
def test_shares_learn_what_a_whole_model_learns(
    trial: Trial, ranks: int, whole_model: Callable[[Trial], Trained], tmp_path: Path
) -> None:
    """On one process too, which is all that one GPU can run."""
    one, two = whole_model(trial), trained(trial, ranks, True, tmp_path / "two")
    sharded_mains.learner_of(trial, sharded_mains.Ranks(), sharded=False).export(tmp_path)
    start = load_file(tmp_path / "model.safetensors")
    assert one.weights.keys() == two.weights.keys() == start.keys()
    moved = max(float((one.weights[name] - start[name]).abs().max()) for name in start)
    assert moved > 5e-4, "or nothing is compared"
    for name, weight in one.weights.items():
        assert (weight - two.weights[name]).abs().max() < bound(name), name
    for a, b in zip(one.logprobs, two.logprobs, strict=True):
        assert np.abs(a - b).max() < 1e-4
    for a, b in zip(chain(*one.seen), chain(*two.seen), strict=True):
        assert (a is None) == (b is None)
        assert a is None or np.abs(a - b).max() < 1e-4
    for a, b in zip(one.metrics, two.metrics, strict=True):
        assert a.keys() == b.keys()
        assert a == pytest.approx(b, rel=1e-3, abs=1e-6)


def bound(name: str) -> float:
    """A bias of keys moves all scores of a query alike, so its gradient is rounding, which AdamW takes at full size."""
    return 1e-4 if name.endswith("k_proj.bias") else 1e-6


def test_bfloat16_matmuls_of_weights_in_float32(tmp_path: Path) -> None:
    """Shares are gathered in bfloat16, so weights of norms are rounded too; what is kept is float32 as ever."""
    exact, low = Trial("qwen3"), Trial("qwen3", dtype=torch.bfloat16)
    want, one = (trained(t, 1, False, tmp_path / str(t.dtype), 1).untrained for t in (exact, low))
    two = trained(low, 2, True, tmp_path / "two", 1)
    rounding = np.concatenate([np.abs(a - b) for a, b in zip(want, one, strict=True)])
    apart = np.concatenate([np.abs(a - b) for a, b in zip(want, two.untrained, strict=True)])
    assert 1e-3 < rounding.mean() < 0.1
    assert apart.mean() < 2 * rounding.mean(), "no further from float32 than a whole model in bfloat16"
    files = [load_file(file) for file in (tmp_path / "two" / "checkpoint").glob("*.safetensors")]
    kept = [tensor for file in files for name, tensor in file.items() if name.startswith("weights.")]
    assert {tensor.dtype for tensor in kept} == {torch.float32}
    assert any((tensor != tensor.bfloat16().float()).any() for tensor in kept)


@pytest.mark.parametrize("reset_every", [pytest.param(None, marks=pytest.mark.slow), 2])
def test_a_checkpoint_goes_on_on_another_number_of_processes(reset_every: int | None, tmp_path: Path) -> None:
    """One is a number of processes too. The reference is part of it where it is reset at times."""
    trial = Trial(kl=0.1, reset_every=reset_every)
    whole = trained(trial, 1, False, tmp_path / "whole", 6)
    trained(trial, 2, True, tmp_path / "begun", 3)
    for ranks in (1, 2, 3) if reset_every is None else (1, 2):
        went_on = trained(trial, ranks, True, tmp_path / str(ranks), 3, tmp_path / "begun")
        for key, weight in whole.weights.items():
            # the first step after a reset takes every gradient at full size, rounding too
            assert (weight - went_on.weights[key]).abs().max() < (2e-5 if reset_every else bound(key)), (ranks, key)
    again = trained(trial, 2, True, tmp_path / "again", 3, tmp_path / "begun")
    two = load_file(tmp_path / "2" / "export" / "model.safetensors")
    assert all(torch.equal(two[key], again.weights[key]) for key in two), "bit for bit"


def test_a_checkpoint_of_another_learner_or_model_is_a_sentence(tmp_path: Path) -> None:
    trained(Trial(), 1, False, tmp_path / "whole", 1)
    with pytest.raises(UserError, match=r"has no learner.json: it was saved by another engine.learner"):
        trained(Trial(), 1, True, tmp_path / "shares", 1, tmp_path / "whole")
    trained(Trial(), 1, True, tmp_path / "sharded", 1)
    with pytest.raises(UserError, match=r"has no weights.safetensors: it was saved by another engine.learner"):
        trained(Trial(), 1, False, tmp_path / "one", 1, tmp_path / "sharded")
    with pytest.raises(UserError, match="weights of another model"):
        trained(Trial("llama"), 1, True, tmp_path / "llama", 1, tmp_path / "sharded")


def test_a_folder_that_one_process_does_not_see_is_a_sentence_on_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ranks \[1\] do not see .*a disk that all share"):
        launched(2, sharded_mains.look_where_one_cannot_see, tmp_path)


def test_beside_an_adapter_frozen_weights_are_held_once_and_stay_where_they_are(tmp_path: Path) -> None:
    """Also with a reference, and where the adapter is synced."""
    assert launched(2, sharded_mains.hold_and_gather, tmp_path) == 0
    for rank in range(2):
        numbers = json.loads((tmp_path / f"{rank}.json").read_text())
        frozen = numbers["model"] - numbers["trained"]
        # weights, reference, gradients, two moments of what is trained; less than a second copy of what is frozen
        assert numbers["held"] < frozen + 5 * numbers["trained"] + 0.7 * frozen, numbers
        assert numbers["gathered"] == pytest.approx(2 * numbers["trained"], rel=0.2), numbers
    assert (tmp_path / "0" / "adapter_model.safetensors").is_file()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the largest memory anew")
@pytest.mark.parametrize(("ranks", "sharded"), [(1, False), (2, True)])
def test_saving_takes_no_copy(ranks: int, sharded: bool, tmp_path: Path) -> None:
    """At most a tenth of what a process saves, where all of it was once put together in memory, twice over."""
    assert launched(ranks, sharded_mains.save_large, sharded, tmp_path / "saved") == 0
    for taken, own in json.loads((tmp_path / "saved" / "taken").read_text()):
        assert own > 150e6 / ranks
        assert taken < 0.1 * own
