"""What a learner keeps however its weights are held: two processes with shares of the weights are one with all."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sharded_mains
from outrider.train.launch import launch
from sharded_mains import Trial

STEPS = 10
TRIALS = {
    "full weights": Trial(),
    "an untied head, and a reference": Trial("llama", tied=False, kl=0.1),
    "an adapter": Trial("qwen3", lora=True),
    "an adapter, a reference, layers computed twice": Trial(lora=True, kl=0.1, checkpointing=True),
    "one large micro-batch": Trial(micro_tokens=10_000, rows=11),
}


def trained(trial: Trial, ranks: int, sharded: bool, out: Path, steps: int = STEPS, start: Path | None = None) -> Any:
    assert launch(ranks, sharded_mains.train, trial, sharded, steps, out, start) == 0
    return pickle.loads(out.read_bytes())


# full weights and an adapter, each once; the others are more of the same
QUICK = ("full weights", "an adapter, a reference, layers computed twice")
MARKED = [
    pytest.param(trial, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, trial in TRIALS.items()
]


@pytest.mark.parametrize("trial", MARKED)
def test_shares_on_two_processes_learn_what_one_learns(trial: Trial, tmp_path: Path) -> None:
    one, two = trained(trial, 1, False, tmp_path / "one"), trained(trial, 2, True, tmp_path / "two")
    assert one["weights"].keys() == two["weights"].keys()
    start = sharded_mains.learner_of(trial, sharded_mains.Ranks(), sharded=False).weights()
    moved = max(float((one["weights"][name] - start[name]).abs().max()) for name in start)
    assert moved > 5e-4, "or nothing is compared"
    for name, weight in one["weights"].items():
        assert (weight - two["weights"][name]).abs().max() < bound(name), name
    for a, b in zip(one["logprobs"], two["logprobs"], strict=True):
        assert np.abs(a - b).max() < 1e-4
    for a, b in zip(one["metrics"], two["metrics"], strict=True):
        assert a.keys() == b.keys()
        assert a == pytest.approx(b, rel=1e-3, abs=1e-6)
    exports = [load_file(tmp_path / f"{name}.export" / "model.safetensors") for name in ("one", "two")]
    assert exports[0].keys() == exports[1].keys()
    assert all(torch.allclose(exports[0][name], exports[1][name], atol=1e-5) for name in exports[0])


def bound(name: str) -> float:
    """A bias of keys moves all scores of a query alike, so its gradient is rounding, which AdamW takes at full size."""
    return 1e-4 if name.endswith("k_proj.bias") else 1e-6


def test_a_checkpoint_goes_on_on_another_number_of_processes(tmp_path: Path) -> None:
    trial = Trial(kl=0.1)
    whole = trained(trial, 1, False, tmp_path / "whole", 6)
    trained(trial, 2, True, tmp_path / "begun", 3)
    for name, ranks, sharded in (("two", 2, True), ("one", 1, False)):
        went_on = trained(trial, ranks, sharded, tmp_path / name, 3, tmp_path / "begun")
        for key, weight in whole["weights"].items():
            assert (weight - went_on["weights"][key]).abs().max() < bound(key), (name, key)
    again = trained(trial, 2, True, tmp_path / "again", 3, tmp_path / "begun")
    two = pickle.loads((tmp_path / "two").read_bytes())
    assert all(torch.equal(two["weights"][key], again["weights"][key]) for key in two["weights"]), "bit for bit"
