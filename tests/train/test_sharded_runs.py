"""Whole runs whose weights are shared out over two processes, and whose rollouts come from a server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from child_processes import Started, begun
from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.model.load import load_policy
from outrider.runs.folder import RunFolder
from scripted_vllm import SamplingVllm

PAGES = [Path(__file__).parents[2] / name for name in ("README.md", "docs/engines.md")]
SHORT = ["train.tokens=null", "train.steps=4", "train.problems=4", "train.save_every=2", "evaluate.after=false"]
SHORT += ["evaluate.before=false", "learn.lr=1e-3", "sample.max_tokens=48", "objective.kl=0.01"]


@pytest.fixture
def server() -> Iterator[SamplingVllm]:
    started = SamplingVllm()
    yield started
    started.close()


def started(learner: str, ranks: int, server: SamplingVllm, out: Path, *more: str) -> Started:
    engine = {"sampler": {"vllm": {"servers": [server.address]}}, "learner": learner}
    words = ["train", "grpo", *SHORT, f"train.ranks={ranks}", f"engine={json.dumps(engine)}", "--out", str(out), *more]
    return begun(words, out.with_name("errors.txt"))


def run(learner: str, ranks: int, server: SamplingVllm, out: Path, *more: str) -> str:
    process = started(learner, ranks, server, out, *more)
    assert process.wait() == 0, process.errors()
    return process.errors()


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
    process.wait_for(lambda: (out / "metrics.jsonl").exists() and RunFolder(out).metrics())
    process.send(signal.SIGTERM)
    assert process.wait() == 143, process.errors()
    assert "goes on after step" in process.last_words()
    run("fsdp2", 2, server, out, "--resume")
    assert furthest(weights(tmp_path / "shares"), weights(out)) == 0.0


@pytest.mark.slow
def test_a_run_goes_on_on_another_number_of_processes_if_told_to(server: SamplingVllm, tmp_path: Path) -> None:
    run("fsdp2", 2, server, tmp_path / "run")
    refused = started("fsdp2", 3, server, tmp_path / "run", "--resume", "train.steps=5")
    assert refused.wait() == 2
    assert "ranks: 2 -> 3" in refused.errors()
    errors = run("fsdp2", 3, server, tmp_path / "run", "--resume", "--force", "train.steps=5")
    assert "ranks: 2 -> 3" in errors
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("recipe", "engine", "message"),
    [
        ("grpo", {"learner": "fsdp2"}, "shards the policy, and the local sampler needs all of it"),
        ("grpo", {"learner": "fdsp2"}, "'fdsp2' is not a learner .*fsdp2"),
        (
            "attnrl",
            {"learner": "fsdp2", "sampler": {"vllm": {"servers": ["http://a"]}}},
            r"explore.\d needs the policy's attention",
        ),
    ],
)
def test_what_shares_cannot_do_is_a_sentence(recipe: str, engine: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe(recipe, [f"engine={json.dumps(engine)}"])


def of_the_pages(words: str) -> str:
    """The block of code of README or of the page on engines that has these words."""
    texts = "".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"^```\w*\n(.*?)^```", texts, re.DOTALL | re.MULTILINE)
    [found] = [block for block in blocks if words in block]
    return str(found)


def as_on_a_cpu(block: str, server: SamplingVllm, folder: Path) -> list[str]:
    """The block's lines with the names that are this machine's, and without the server, which runs already."""
    changes = {
        "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5 ": "",
        "http://127.0.0.1:8006": server.address,
        ', "http://127.0.0.1:8007"': "",
        "http://c:8000": server.address,
        "/shared/weights": str(folder),
        "/shared/runs/mine": str(folder / "run"),
        "runs/mine": str(folder / "run"),
        "model=./Qwen2.5-7B-Instruct ": "",
        "torchrun": f"{Path(sys.executable).with_name('torchrun')} --local-addr 127.0.0.1",
        "--nproc-per-node 6": "--nproc-per-node 2",
        "--nproc-per-node 8": "--nproc-per-node 1",
        "mine.yaml": str(folder / "mine.yaml"),
    }
    for said, here in changes.items():
        block = block.replace(said, here)
    return [line for line in block.splitlines() if "outrider serve" not in line]


@pytest.mark.slow  # torchrun and its ranks import for half a minute
@pytest.mark.parametrize(("words", "machines"), [("--nproc-per-node 6", 1), ("--nnodes 2", 2)])
def test_the_blocks_of_the_pages_train(words: str, machines: int, server: SamplingVllm, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "extends: grpo\nmodel: base:countdown\ntask: {countdown: {}}\nsample: {max_tokens: 24}\n"
        "train: {problems: 4, steps: 1, tokens: null}\nevaluate: {before: false, after: false}\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = "\n".join(as_on_a_cpu(of_the_pages(words), server, tmp_path)).replace("a:29500", f"127.0.0.1:{port}")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(["sh", "-ec", script], stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path)
        for _ in range(machines)
    ]
    said = [process.communicate(timeout=200)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * machines, said
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1]
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
