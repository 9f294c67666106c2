"""What the benchmarks of learning on other engines share: waiting for a run of another process, and what it changed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from outrider.measure.compare import compare
from outrider.measure.evaluation import Evaluation
from outrider.runs.folder import RunFolder


def steps(out: Path) -> int:
    return len(RunFolder(out).metrics()) if (out / "metrics.jsonl").exists() else 0


def wait_until(done: int, out: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the run has generated so many tokens."""
    while not (steps(out) and RunFolder(out).metrics()[-1]["tokens"] >= done):
        if process.poll() is not None:
            raise SystemExit(f"{out.name} ended with status {process.returncode}")
        time.sleep(0.2)


def kill(process: subprocess.Popen[bytes]) -> None:
    """At once, with all that it started in its session."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def changes(out: Path, ks: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """pass@k before, and its paired change with an interval."""
    evaluations = RunFolder(out).evaluations()
    first, last = (Evaluation.from_json(evaluations[step]) for step in (min(evaluations), max(evaluations)))
    change = compare(first, last).overall.pass_at
    return {
        f"pass@{k}": {"before": first.overall.pass_at[k].value, "change": change[k].value}
        | {"low": change[k].low, "high": change[k].high}
        for k in ks
    }


def versions(python: str, starts: tuple[str, ...]) -> list[str]:
    """Of the packages of an interpreter whose names begin so."""
    listed = [python, "-m", "pip", "list", "--format=freeze"]
    installed = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return [line for line in installed.splitlines() if line.startswith(starts)]
