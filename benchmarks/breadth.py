"""Peak memory of a step of the breadth recipes: does it stay bounded at 3,072 problems, and what does a rollout cost?

One whole step (explore, credit, learn, write) in a process of its own for each case, on one rank, as `outrider train`
runs it. Responses are short, so that a step is half a minute; what a rollout costs besides its tokens is the same. One
case has the length that the task needs, and takes the longest.
``peak_mb``: the largest resident size in a phase, with the freed memory that the C library keeps. ``held_mb``: what is
still held once the step is over, freed memory given back, over the loaded process: groups and rollouts, the optimizer's
moments, modules that were imported on the way. ``per_rollout``: bytes by which both grow from 384 to 3,072 problems.

Shows (2026-11-21): a rollout costs 4 kB once the step is over and 6 kB at the peak, so 3,072 problems take 0.83 GB with
8 rollouts each and 1.08 GB with DARS's 28; 0.43 GB of both are Python, torch and the model, 0.1 to 0.3 a wave of rows.
At the task's own length, 75 thousand rollouts of 3.7 million tokens take 1.22 GB. A quarter of an hour of one core.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time

from _machine import forget_the_peak, keep, status, trimmed

from outrider.config import load_recipe
from outrider.model.load import load_policy
from outrider.processes.clock import Clock
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record.store import RolloutStore
from outrider.sample.ready import ready
from outrider.tasks.task import verify_all
from outrider.train.build import build

CASES = [  # recipe, problems, most tokens of a response
    ("breadth-naive", 384, 24),
    ("breadth-naive", 1536, 24),
    ("breadth-naive", 3072, 24),
    ("breadth-naive", 384, 96),  # the length that the task needs
    ("dars-et-breadth", 3072, 24),
    ("dars-hw-breadth", 3072, 96),
]


class Peaks:
    """The largest resident size while each phase ran."""

    def __init__(self) -> None:
        self.megabytes: dict[str, float] = {}
        self.phase = "load"

    def __call__(self, phase: str) -> None:
        self.megabytes[self.phase] = max(self.megabytes.get(self.phase, 0.0), status("VmHWM"))
        forget_the_peak()
        self.phase = phase


def one_step(ranks: Ranks, name: str, problems: int, tokens: int) -> int:
    peaks = Peaks()
    recipe = load_recipe(name, [f"train.problems={problems}", f"sample.max_tokens={tokens}"])
    trainer = build(recipe, ready(load_policy(recipe.model))[0], ranks, Clock(peaks))
    verify_all(recipe.task, [])
    idle, begin = trimmed(), time.process_time()
    groups, metrics = trainer.step()
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    with trainer.clock.phase("write"), tempfile.TemporaryDirectory() as folder:
        RolloutStore(folder).write(1, rollouts)
    peaks("end")
    cpu, held = time.process_time() - begin, trimmed() - idle
    told = {
        "rollouts": len(rollouts),
        "tokens": int(metrics["step_tokens"]),
        "idle_mb": round(idle),
        "peak_mb": {phase: round(peak) for phase, peak in peaks.megabytes.items() if phase not in ("load", "gather")},
        "held_mb": round(held),
        "cpu_seconds": round(cpu, 1),
    }
    recipe.task.close()
    print(json.dumps(told))
    return 0


def main() -> None:
    if sys.argv[1:]:
        name, problems, tokens = sys.argv[1:]
        launch(1, one_step, name, int(problems), int(tokens))
        return
    cases = []
    for case in CASES:
        command = [sys.executable, __file__, *map(str, case)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cases.append(dict(zip(("recipe", "problems", "most_tokens"), case, strict=True)) | json.loads(told))
    few, _, many = cases[:3]
    more = (many["rollouts"] - few["rollouts"]) / 2**20
    per_rollout = {
        "held": round((many["held_mb"] - few["held_mb"]) / more),
        "peak": round((max(many["peak_mb"].values()) - max(few["peak_mb"].values())) / more),
    }
    keep("breadth", {"cases": cases, "per_rollout": per_rollout})


if __name__ == "__main__":
    main()
