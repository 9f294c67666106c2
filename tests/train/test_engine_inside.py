"""Whole runs with vLLM in their own processes, where this interpreter has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.runs.folder import RunFolder
from vllm_servers import ON_A_CPU, needs_vllm_here

pytestmark = needs_vllm_here
SHORT = ["evaluate.before=false", "evaluate.after=false", "train.save_every=1", "train.tokens=null", "train.problems=8"]


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "outrider", "train", "grpo", *SHORT, "engine.sampler=vllm", "--out", str(out)]
    command += more
    environment = {**os.environ, **ON_A_CPU, "TMPDIR": str(out.parent)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def processes_of(group: int) -> list[str]:
    """What runs in a group of processes."""
    there = subprocess.run(["ps", "-eo", "pgid,stat,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in there.splitlines()[1:]]
    return [" ".join(row) for row in rows if int(row[0]) == group and "Z" not in row[1]]


def wait_for(out: Path, steps: int, process: subprocess.Popen[str]) -> None:
    while len(list((out / "checkpoints").glob("step-*"))) < 2 or len(RunFolder(out).metrics()) < steps:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_survives_a_kill_and_leaves_nothing_behind(ranks: int, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [f"train.ranks={ranks}", "train.steps=40"]
    process = start(out, *words)
    wait_for(out, 2, process)
    os.killpg(process.pid, signal.SIGKILL) if ranks == 1 else os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    end = time.monotonic() + 30
    while (left := processes_of(process.pid)) and time.monotonic() < end:
        time.sleep(0.1)  # the other ranks and the verifiers see that their run is gone
    assert not left
    process = start(out, *words[:1], f"train.steps={len(RunFolder(out).metrics()) + 2}", "--resume", "--force")
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors[-3000:]
    rows = RunFolder(out).metrics()
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["sync/probe_max"] < 1e-4 and row["sync/engines"] == 1.0 for row in rows)
    assert all(row["sync/prompt_tokens"] > 0 for row in rows[1:])


def test_a_run_of_an_adapter_hands_over_the_adapter(tmp_path: Path) -> None:
    process = start(tmp_path / "run", "train.ranks=1", "train.steps=3", "policy.lora={rank: 4}", "learn.lr=0.003")
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors[-3000:]
    assert "adapters" not in (tmp_path / "run" / "notices.txt").read_text()
    rows = RunFolder(tmp_path / "run").metrics()
    assert len(rows) == 3
    assert all(row["sync/probe_max"] < 1e-3 for row in rows)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_one_sentence(number: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path / "run", "train.ranks=1", "train.steps=400")
    wait_for(tmp_path / "run", 2, process)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 143), errors[-3000:]
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert not processes_of(process.pid)
    assert not list(tmp_path.glob("outrider-weights-*"))
