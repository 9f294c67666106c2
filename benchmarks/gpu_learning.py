"""Does the shipped base learn on a GPU as it does on a CPU, and does a killed run go on there as if it had not been?

Each recipe, 600,000 generated tokens on Countdown:

- on the GPU, and once more, killed (SIGKILL) a third into its budget and resumed;
- *exact*: both again with ``learn.deterministic=true``;
- on the CPU of the same machine;
- grpo with vLLM in the run's own process, where this interpreter has vLLM.

pass@1 and pass@16 before and after on the same 300 held-out problems, 16 samples each, with paired bootstrap intervals;
tokens per second of training; and the first step at which the metrics differ in any bit from those of the whole run:
none where runs are exact.

``python benchmarks/gpu_learning.py [--out FOLDER] [--tiny] [RECIPE ...]``; results go to
``benchmarks/results/gpu_learning.json`` after each run. Without CUDA nothing is measured; ``--tiny`` runs two steps of
everything on whatever there is, and keeps no numbers.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from _learning import changes, kill, wait_until
from _machine import keep

from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder

RECIPES = ("grpo", "dars-hw", "deep-grpo", "xrpo")
TOKENS, TINY = 600_000, 20_000
PHASES = ("sample", "learn", "sync")
EXACT = ["learn.deterministic=true"]
WAYS = {"gpu": [], "killed": [], "exact": EXACT, "exact-killed": EXACT, "cpu": []}
VLLM = {"vllm": ["engine.sampler={vllm: {memory: 0.2}}"]}


def started(recipe: str, way: str, out: Path, tiny: bool) -> subprocess.Popen[bytes]:
    problems = 4 if tiny else 300
    words = [f"train.tokens={TINY if tiny else TOKENS}", "train.ranks=1", "train.save_every=2", "seed=1"]
    words += [f"evaluate.problems={problems}", "evaluate.n=16", "evaluate.greedy=false", *(WAYS | VLLM)[way]]
    words += ["--resume"] if out.exists() else []
    without = {"CUDA_VISIBLE_DEVICES": ""} if way == "cpu" else {}
    asked = [sys.executable, "-m", "outrider", "train", recipe, *words, "--out", str(out)]
    return subprocess.Popen(asked, env={**os.environ, **without}, start_new_session=True)


def trained(recipe: str, way: str, out: Path, tiny: bool) -> dict[str, Any]:
    process = started(recipe, way, out, tiny)
    if "killed" in way:
        try:
            wait_until((TINY if tiny else TOKENS) // 3, out, process)
        except SystemExit as error:  # it ended first
            return {"error": str(error)}
        kill(process)
        process = started(recipe, way, out, tiny)
    if process.wait():
        return {"error": f"ended with status {process.returncode}"}
    rows, times = RunFolder(out).metrics(), RunFolder(out).timing()
    seconds = sum(map(training_seconds, times))
    return changes(out, (1, 16)) | {
        "steps": len(rows),
        "tokens": rows[-1]["tokens"],
        "seconds": seconds,
        "phases": {phase: sum(row.get(phase, 0.0) for row in times) for phase in PHASES},
        "tokens_per_second": rows[-1]["tokens"] / seconds,
        "probe_max": max(row.get("sync/probe_max", 0.0) for row in rows),
    }


def first_difference(one: Path, other: Path) -> int | None:
    """The first step at which the metrics of two runs differ; None where they are equal files."""
    pairs = zip_longest(*((out / "metrics.jsonl").read_bytes().splitlines() for out in (one, other)))
    return next((step for step, (a, b) in enumerate(pairs, 1) if a != b), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=RECIPES, metavar="RECIPE", help=f"else {', '.join(RECIPES)}")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the runs, which are kept there (else a new one)")
    parser.add_argument("--tiny", action="store_true", help="two steps or so, on a CPU too; no numbers are kept")
    asked = parser.parse_args()
    if not (asked.tiny or torch.cuda.is_available()):
        print("no CUDA here: skipped")
        return 0
    folder = asked.out or Path(tempfile.mkdtemp(prefix="outrider-gpu-learning-"))
    found: dict[str, dict[str, Any]] = {}
    for recipe in asked.recipes:
        found[recipe] = {}
        for way in [*WAYS, *(VLLM if recipe == "grpo" and importlib.util.find_spec("vllm") else ())]:
            out = folder / f"{recipe}-{way}"
            result = trained(recipe, way, out, asked.tiny)
            twin = "exact" if way == "exact-killed" else "gpu"
            if "error" not in result and twin != way:
                result["first_difference"] = first_difference(folder / f"{recipe}-{twin}", out)
            found[recipe][way] = result
            print(recipe, way, json.dumps(result), flush=True)
            if not asked.tiny:
                about = {"gpu": torch.cuda.get_device_name(0), "cuda": str(torch.version.cuda)}
                about["threads"] = str(torch.get_num_threads())  # of the runs on the CPU
                keep("gpu_learning", {"recipes": found, **about}, show=False)
    return any("error" in result for runs in found.values() for result in runs.values())


if __name__ == "__main__":
    sys.exit(main())
