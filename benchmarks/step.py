"""Whole GRPO steps on the embedded task: seconds by phase, two processes against one, peak memory.

Aims: explore, credit, record, sync and saving together at most 5 % of a step; two ranks at least 1.6 times one; peak
memory of all processes under 1.5 GB. What the machine itself gives to two processes is measured beside it, since cores
share caches, memory and the host: two runs of one rank at once, which exchange nothing, against one alone.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _machine import keep

STEPS, PAIRS, WARM = 14, 5, 4
OVERHEAD = ("explore", "credit", "record", "sync", "save")


def run(ranks: int, folder: Path) -> tuple[dict[str, float], list[float], float]:
    """Of the steps after the warm ones mean seconds by phase and seconds of each; megabytes of the largest process."""
    command = [
        *(sys.executable, "-m", "outrider", "train", "grpo", "--out", str(folder)),
        *(f"train.ranks={ranks}", f"train.steps={STEPS}", "train.tokens=null"),
        "train.save_every=10",  # twice as often as by default: one save among the steps that count
        *("evaluate.before=false", "evaluate.after=false"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in (folder / "timing.jsonl").read_text().splitlines()][WARM:]
    phases = sorted({key for row in rows for key in row} - {"step", "tokens_per_second"})
    seconds = {phase: statistics.mean(row.get(phase, 0.0) for row in rows) for phase in phases}
    seconds_S = [sum(row.get(phase, 0.0) for phase in phases) for row in rows]
    return seconds, seconds_S, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def two_at_once(folder: Path) -> float:
    """Mean seconds of a step of two runs of one rank that share the machine."""
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda name: run(1, folder / name)[0], ("a", "b")))
    return statistics.mean(sum(seconds.values()) for seconds in both)


def spread(ratios: list[float]) -> dict[str, float]:
    return {name: round(f(ratios), 2) for name, f in (("median", statistics.median), ("min", min), ("max", max))}


def main() -> None:
    shared: list[float] = []
    found: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    steps: dict[int, list[list[float]]] = {1: [], 2: []}
    memory = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(PAIRS):
            for ranks, runs in found.items():
                seconds, seconds_S, megabytes = run(ranks, Path(folder) / f"{ranks}-{pair}")
                runs.append(seconds)
                steps[ranks].append(seconds_S)
                memory = max(memory, megabytes)
            shared.append(two_at_once(Path(folder) / f"both-{pair}"))
    totals = {ranks: [sum(seconds.values()) for seconds in runs] for ranks, runs in found.items()}
    numbers: dict[str, object] = {"steps": STEPS - WARM, "pairs": PAIRS}
    for ranks, runs in found.items():
        mean = {phase: statistics.mean(seconds.get(phase, 0.0) for seconds in runs) for phase in runs[0]}
        whole = sum(mean.values())
        numbers[f"ranks_{ranks}"] = {
            "seconds_per_step": round(whole, 3),
            "share": {phase: round(value / whole, 4) for phase, value in mean.items()},
            "overhead_share": round(sum(mean.get(phase, 0.0) for phase in OVERHEAD) / whole, 4),
        }
    numbers["two_ranks_over_one"] = spread([one / two for one, two in zip(totals[1], totals[2], strict=True)])
    numbers["two_runs_at_once_over_one"] = spread([2 * one / two for one, two in zip(totals[1], shared, strict=True)])
    # all runs of one count of ranks do the same work step by step, so the fastest try of each step is the quiet machine
    quiet = {ranks: sum(map(min, zip(*repeats, strict=True))) for ranks, repeats in steps.items()}
    numbers["two_ranks_over_one_fastest_repeats"] = round(quiet[1] / quiet[2], 2)
    numbers["largest_process_mb"] = round(memory)
    keep("step", numbers)


if __name__ == "__main__":
    main()
