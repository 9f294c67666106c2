"""Whole runs whose weights are shared out over two processes, and whose rollouts come from a server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.model.load import load_policy
from outrider.runs.folder import RunFolder
from scripted_vllm import SamplingVllm

SHORT = ["train.tokens=null", "train.steps=4", "train.problems=4", "train.save_every=2", "evaluate.after=false"]
SHORT += ["evaluate.before=false", "learn.lr=1e-3", "sample.max_tokens=48", "objective.kl=0.01"]


@pytest.fixture
def server() -> Iterator[SamplingVllm]:
    started = SamplingVllm()
    yield started
    started.close()


def started(learner: str, ranks: int, server: SamplingVllm, out: Path, *more: str) -> subprocess.Popen[str]:
    engine = {"sampler": {"vllm": {"servers": [server.address]}}, "learner": learner}
    words = ["train", "grpo", *SHORT, f"train.ranks={ranks}", f"engine={json.dumps(engine)}", "--out", str(out), *more]
    return subprocess.Popen([sys.executable, "-m", "outrider", *words], stderr=subprocess.PIPE, text=True)


def run(learner: str, ranks: int, server: SamplingVllm, out: Path, *more: str) -> str:
    process = started(learner, ranks, server, out, *more)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 0, errors
    return errors


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model" / "model.safetensors")


def furthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_two_processes_with_shares_train_what_one_trains_and_go_on_where_they_were(
    server: SamplingVllm, tmp_path: Path
) -> None:
    run("local", 1, server, tmp_path / "whole")
    run("fsdp2", 2, server, tmp_path / "shares")
    learned, begun = weights(tmp_path / "whole"), load_policy("base:countdown").model.state_dict()
    assert max(float((learned[name] - begun[name]).abs().max()) for name in learned) > 5e-4, "or nothing is compared"
    assert furthest(learned, weights(tmp_path / "shares")) < 1e-4
    assert [row["sync/probe_max"] < 1e-4 for row in RunFolder(tmp_path / "shares").metrics()] == [True] * 4

    # SIGTERM in mid-step: it is saved by all, and a resumed run ends where the other did, to the last bit
    out = tmp_path / "ended"
    process = started("fsdp2", 2, server, out)
    while not (out / "metrics.jsonl").exists() or not RunFolder(out).metrics():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 143, errors
    assert "goes on after step" in errors
    assert "Traceback" not in errors
    run("fsdp2", 2, server, out, "--resume")
    assert furthest(weights(tmp_path / "shares"), weights(out)) == 0.0

    errors = run("fsdp2", 3, server, out, "--resume", "--force", "train.steps=5")
    assert "ranks: 2 -> 3" in errors
    assert [row["step"] for row in RunFolder(out).metrics()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("recipe", "engine", "message"),
    [
        ("grpo", {"learner": "fsdp2"}, "leaves no process with the whole policy"),
        ("grpo", {"learner": "fdsp2"}, "'fdsp2' is not a learner .*fsdp2"),
        (
            "attnrl",
            {"learner": "fsdp2", "sampler": {"vllm": {"servers": ["http://a"]}}},
            r"explore.\d measures the policy's attention",
        ),
    ],
)
def test_what_shares_cannot_do_is_a_sentence(recipe: str, engine: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe(recipe, [f"engine={json.dumps(engine)}"])
