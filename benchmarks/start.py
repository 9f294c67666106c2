"""How much longer than its step does ``outrider train`` of one step take?

A run of GRPO on Countdown with one step and no evaluation, one process, wall time from start to exit minus the seconds
of the step, by repeats. Beside it the imports that every such run needs: torch, and transformers' base class of models.

Aim: at most 5 s. Command: ``python benchmarks/start.py``; a minute.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _machine import keep

from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder

REPEATS = 5
IMPORTS = ("import torch", "import torch; from transformers import PreTrainedModel")
OPTIONS = ("train.steps=1", "train.tokens=null", "train.ranks=1", "evaluate.before=false", "evaluate.after=false")


def seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def beyond_the_step(out: Path) -> float:
    whole = seconds("-m", "outrider", "train", "grpo", *OPTIONS, "--out", str(out))
    return whole - sum(map(training_seconds, RunFolder(out).timing()))


def main() -> None:
    found: dict[str, list[float]] = {"run without its step": []} | {code: [] for code in IMPORTS}
    with tempfile.TemporaryDirectory() as place:
        beyond_the_step(Path(place) / "warm")
        for repeat in range(REPEATS):  # in turn, so that a slow minute hits all
            found["run without its step"].append(beyond_the_step(Path(place) / str(repeat)))
            for code in IMPORTS:
                found[code].append(seconds("-c", code))
    medians = {name: round(statistics.median(each), 2) for name, each in found.items()}
    keep("start", {"repeats": REPEATS, "seconds": medians})


if __name__ == "__main__":
    main()
