"""A whole step of GRPO beside TRL's ``GRPOTrainer``: the shipped base on Countdown, 32 problems x 8 responses.

Both sample 256 responses of at most 96 tokens at temperature 1 and make one optimizer step in float32, without KL. TRL
samples with ``transformers.generate``, since vLLM needs a GPU, and learns in micro-batches of 64 rows, its fastest of
32 to 256 here. Runs of both alternate, so that a slow minute hits both: on one thread, then on the whole machine, where
TRL has a thread per core and Outrider a rank per core. Ratios are of generated tokens per second, since responses
differ. The steps of Outrider have everything but evaluation, as in a run: weight sync, its check, records on disk.

Aims: 4.5 times TRL on one thread, 5 times on two cores. Command: ``python benchmarks/trl_step.py [PYTHON]``, where
PYTHON has TRL and Outrider (by default .engines/trl/bin/python of ``make environments``); some minutes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _machine import keep, ratio, rounded

from outrider.model.places import model_folder
from outrider.runs.folder import RunFolder

HERE = Path(__file__).parent
TRL = HERE.parent / ".engines" / "trl" / "bin" / "python"
PAIRS, STEPS, WARM = 3, 8, 3
PROBLEMS, SAMPLES, MAX_TOKENS, MICRO_BATCH = 32, 8, 96, 64


def trl(python: str | Path, threads: int, micro_batch: int = MICRO_BATCH) -> dict[str, object]:
    """Of TRL's steps after the warm ones, seconds and generated tokens; and versions."""
    asked = {
        "model": model_folder("base:countdown"),
        "threads": threads,
        "problems": PROBLEMS,
        "samples": SAMPLES,
        "max_tokens": MAX_TOKENS,
        "micro_batch": micro_batch,
        "steps": STEPS,
        "warm": WARM,
    }
    done = subprocess.run(
        [str(python), str(HERE / "_trl_step.py"), json.dumps(asked)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("SHOW") else subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
    )
    found: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def outrider(ranks: int) -> dict[str, object]:
    """Of our steps after the warm ones, seconds and generated tokens."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        options = {
            "train.ranks": ranks,
            "train.steps": STEPS,
            "train.tokens": "null",
            "train.problems": PROBLEMS,
            "explore.0.uniform.n": SAMPLES,
            "sample.max_tokens": MAX_TOKENS,
            "train.trackers": "[]",
            "evaluate.before": "false",
            "evaluate.after": "false",
        }
        words = [f"{key}={value}" for key, value in options.items()]
        command = [sys.executable, "-m", "outrider", "train", "grpo", *words, "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = RunFolder(out)
        rows = run.timing()[WARM:]
        tokens = [row["step_tokens"] for row in run.metrics()[WARM:]]
    others = {"step", "tokens_per_second"}
    return {"seconds": [sum(s for k, s in row.items() if k not in others) for row in rows], "tokens": tokens}


def speed(found: dict[str, object]) -> float:
    """Generated tokens per second."""
    return sum(found["tokens"]) / sum(found["seconds"])  # type: ignore[arg-type, call-overload]


def beside(python: str | Path, cores: int) -> dict[str, object]:
    """Both in turn, on so many cores."""
    theirs, ours = [], []
    for _ in range(PAIRS):
        theirs.append(trl(python, cores))
        ours.append(outrider(cores))
    return {
        "trl_seconds_per_step": round(statistics.median(statistics.median(each["seconds"]) for each in theirs), 2),
        "seconds_per_step": round(statistics.median(statistics.median(each["seconds"]) for each in ours), 2),
        "trl_tokens_per_second": round(statistics.median(map(speed, theirs))),
        "tokens_per_second": round(statistics.median(map(speed, ours))),
        "ratio": rounded(ratio(list(map(speed, ours)), list(map(speed, theirs))), 2),
        "trl_versions": theirs[0]["versions"],
    }


def main() -> None:
    python = Path(sys.argv[1]) if len(sys.argv) > 1 else TRL
    cores = os.cpu_count() or 1
    sizes = {size: speed(trl(python, 1, size)) for size in (32, 64, 128, 256)}
    numbers: dict[str, object] = {
        "pairs": PAIRS,
        "steps": STEPS - WARM,
        "trl_tokens_per_second_by_micro_batch": {str(size): round(rate) for size, rate in sizes.items()},
        "one_thread": beside(python, 1),
        f"cores_{cores}": beside(python, cores),
    }
    keep("trl_step", numbers)


if __name__ == "__main__":
    main()
