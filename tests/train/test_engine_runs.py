"""Whole runs whose rollouts come from two vLLM servers, with kills; where an interpreter has vLLM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.runs.folder import RunFolder
from vllm_servers import Server, needs_vllm

pytestmark = needs_vllm
SHORT = ["train.ranks=1", "evaluate.before=false", "evaluate.after=false", "train.save_every=1"]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    started = [Server("base:countdown", tmp_path / f"{i}.log") for i in range(2)]
    try:
        yield [server.wait() for server in started]
    finally:
        for server in started:
            server.kill()


def command(recipe: str, servers: list[Server], out: Path, *more: str) -> list[str]:
    engine = json.dumps({"vllm": {"servers": [server.address for server in servers], "seconds": 300}})
    return [
        sys.executable,
        "-m",
        "outrider",
        "train",
        recipe,
        *SHORT,
        f"engine.sampler={engine}",
        "--out",
        str(out),
        *more,
    ]


def run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def test_recipes_run_and_survive_kills(servers: list[Server], tmp_path: Path) -> None:
    for recipe in ("grpo", "dars-hw", "deep-grpo", "xrpo", "arpo", "entropy-shaping"):
        run(command(recipe, servers, tmp_path / recipe, "train.tokens=null", "train.steps=2", "train.problems=8"))
        rows = RunFolder(tmp_path / recipe).metrics()
        assert [row["sync/engines"] for row in rows] == [2.0, 2.0]
        assert all(row["sync/probe_max"] < 1e-4 for row in rows)

    # kill -9 of the run, then of a server, then all at once
    out, words = tmp_path / "killed", ["train.tokens=null", "train.steps=6", "train.problems=8"]
    process = subprocess.Popen(command("grpo", servers, out, *words), env={**os.environ}, start_new_session=True)
    while len(list((out / "checkpoints").glob("step-*"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    servers[1].kill()
    process = subprocess.Popen(command("grpo", servers[:1], out, *words, "--resume", "--force"), start_new_session=True)
    assert process.wait(300) == 0
    assert [row["step"] for row in RunFolder(out).metrics()] == [1, 2, 3, 4, 5, 6]


def test_a_server_that_dies_in_mid_step_costs_nothing_and_the_last_one_saves_the_run(
    servers: list[Server], tmp_path: Path
) -> None:
    out, words = tmp_path / "run", ["train.tokens=null", "train.steps=40", "train.problems=8"]
    process = subprocess.Popen(
        command("grpo", servers, out, *words), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(out, 2, process)
    servers[1].kill()
    wait_for(out, 6, process)
    rows = RunFolder(out).metrics()
    assert rows[-1]["sync/engines"] == 1.0
    assert {row["rollouts"] for row in rows} == {64}
    servers[0].kill()
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 2
    assert "no vLLM server is left" in errors
    assert "Traceback" not in errors
    done = [row["step"] for row in RunFolder(out).metrics()]
    for server in servers:
        server.start()
    for server in servers:
        server.wait()
    words[1] = f"train.steps={len(done) + 2}"
    run(command("grpo", servers, out, *words, "--resume", "--force"))
    assert [row["step"] for row in RunFolder(out).metrics()] == [*done, done[-1] + 1, done[-1] + 2]


def test_rollouts_of_several_turns_come_from_servers(tmp_path: Path) -> None:
    """Environments answer here, turns are drawn there, and what was read before is in the server's cache."""
    started = [Server("base:hops", tmp_path / f"{i}.log") for i in range(2)]
    try:
        servers = [server.wait() for server in started]
        for recipe in ("tree-grpo", "arpo"):
            more = ["--setting", "hops", "train.tokens=null", "train.steps=2", "train.problems=6"]
            run(command(recipe, servers, tmp_path / recipe, *more))
            for row in RunFolder(tmp_path / recipe).metrics():
                assert row["turns"] > 2
                assert row["observed_tokens"] > 0
                assert row["verdict/error"] == row["verdict/timeout"] == 0
                assert row["sync/probe_max"] < 1e-4
                assert 1 - 1e-3 < row["learn/weight_ess"] <= 1 + 1e-6, "likelihoods there are those here"
    finally:
        for server in started:
            server.kill()


def wait_for(out: Path, steps: int, process: subprocess.Popen[str]) -> None:
    file = out / "metrics.jsonl"
    while not file.exists() or len(RunFolder(out).metrics()) < steps:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
