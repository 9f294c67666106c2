"""What GRPO gains on SmolLM2-135M in the setting ``smollm2``, where every step has new problems.

Written down before the first runs of each row: with a learning rate of 2e-5, seeds 1 to 3 for 200,000 generated tokens
and seeds 4 to 6 for 360,000. Seed 6 was not run: seeds 4 and 5, and seed 4 continued to 600,000 tokens, gained hardly
more than seeds 1 to 3. Then the learning rate was tuned with seed 100, which is not shown. With the tuned rate of 1e-5,
seeds 7 to 9 for 550,000 tokens, in two processes as on any machine of two cores, with nothing beside them: these runs
are also timed. The earlier ones have one process. Each has 60 held-out problems with 16 samples each.
``sample.rows`` and ``learn.micro_tokens`` are given, so that machines of other sizes compute the same passes.

``python benchmarks/smollm2_gain.py [--runs DIR] [--row N]`` makes the runs that DIR lacks, an hour of two cores each,
and writes pass@k before and after with 95 % intervals over seeds and problems (:mod:`outrider.bench.crossed`). With
``--row``, the other rows stay as they are in the results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _machine import RESULTS, keep

from outrider.arrays import Floats
from outrider.bench.crossed import Estimate, Measured, difference, estimate
from outrider.config import load_recipe
from outrider.measure.passk import pass_at_k
from outrider.runs.folder import RunFolder


class Row(NamedTuple):
    """Runs with one learning rate and number of generated tokens; a run that has fewer tokens is continued."""

    lr: float
    tokens: int
    seeds: tuple[int, ...]
    ranks: int = 1


ROWS = (
    Row(2e-5, 200_000, (1, 2, 3)),
    Row(2e-5, 360_000, (4, 5)),
    Row(2e-5, 600_000, (4,)),
    Row(1e-5, 550_000, (7, 8, 9), ranks=2),
)
SIZES = (1, 4, 8, 16)
WORDS = ("--setting", "smollm2", "train.trackers=[]", "sample.rows=128", "learn.micro_tokens=2048")


def trained(folder: Path, row: Row, seed: int) -> Path:
    """The run of a seed; one that was interrupted or has fewer tokens goes on."""
    run = folder / f"grpo-{seed}"
    assert not run.exists() or load_recipe(str(run / "config.yaml")).learn.lr == row.lr, (
        f"{run} has another learning rate"
    )
    if not (run / "table.md").exists() or last(run, row.tokens)["tokens"] < row.tokens:
        again = ["--resume", "--force"] if run.exists() else []
        values = f"train.ranks={row.ranks} learn.lr={row.lr} train.tokens={row.tokens} seed={seed}".split()
        words = [*WORDS, *values, "--out", str(run), *again]
        subprocess.run([sys.executable, "-m", "outrider", "train", "grpo", *words], check=True)
    return run


def last(run: Path, tokens: int) -> dict[str, Any]:
    """The metrics of the step that reached a number of generated tokens, or of the last step."""
    rows = RunFolder(run).metrics()
    return next((row for row in rows if row["tokens"] >= tokens), rows[-1])


def minutes(run: Path, step: int) -> float:
    """Minutes of all phases up to a step, and of the evaluations up to it; loading the model is not in it."""
    folder = RunFolder(run)
    phases = [seconds for row in folder.timing() if row["step"] <= step for seconds in spent(row)]
    return (sum(phases) + sum(row["evaluate"] for row in folder.evaluation_timing() if row["step"] <= step)) / 60


def spent(row: dict[str, float]) -> list[float]:
    """Seconds of a step's phases."""
    return [seconds for phase, seconds in row.items() if phase not in ("step", "tokens_per_second")]


def tallies(run: Path, tokens: int) -> list[dict[str, dict[str, Any]]]:
    """Counts of the evaluations before training and after ``tokens`` generated tokens, by problem."""
    files = (run / "evaluations" / f"step-{step:08}.json" for step in (0, last(run, tokens)["step"]))
    return [{tally["problem"]: tally for tally in json.loads(file.read_text())["tallies"]} for file in files]


def gains(every: list[list[dict[str, dict[str, Any]]]], level: str = "") -> dict[str, Any]:
    """pass@k before, after and the change, of all problems or of one level."""
    problems = sorted(name for name, tally in every[0][0].items() if level in ("", tally["level"]))

    def values(when: int, k: int) -> Floats:
        counts = [[run[when][name] for name in problems] for run in every]
        return np.stack(
            [pass_at_k([one["scorable"] for one in row], [one["successes"] for one in row], k) for row in counts]
        )

    told: dict[str, Any] = {"problems": len(problems)}
    for k in SIZES:
        before, after = (Measured(found := values(when, k), np.ones_like(found)) for when in (0, 1))
        told[f"pass@{k}"] = {
            "before": float(before.totals_SP.mean()),
            "after": rounded(estimate(after)),
            "change": rounded(difference(before, after)),
            "by_seed": (after.totals_SP - before.totals_SP).mean(1).round(4).tolist(),
        }
    return told


def rounded(found: Estimate) -> dict[str, float]:
    return {name: round(getattr(found, name), 4) for name in ("value", "low", "high")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/smollm2-gain"), metavar="DIR", help="folder of the runs"
    )
    parser.add_argument("--row", type=int, choices=range(1, len(ROWS) + 1), help="make one row; 1 is the first")
    asked = parser.parse_args()
    found = json.loads((RESULTS / "smollm2_gain.json").read_text())
    for row in ROWS if asked.row is None else [ROWS[asked.row - 1]]:
        runs = [trained(asked.runs, row, seed) for seed in row.seeds]
        found[f"lr {row.lr}, {row.tokens} tokens"] = gained(runs, row)
    keep("smollm2_gain", found)


def gained(runs: list[Path], row: Row) -> dict[str, Any]:
    """The gains of the runs of a row, and the last step of each run."""
    every = [tallies(run, row.tokens) for run in runs]
    ends = [last(run, row.tokens) for run in runs]
    levels = sorted({tally["level"] for tally in every[0][0].values()})
    return {
        "seeds": row.seeds,
        "tokens": [end["tokens"] for end in ends],
        "steps": [end["step"] for end in ends],
        "minutes": [round(minutes(run, end["step"]), 1) for run, end in zip(runs, ends, strict=True)],
        "entropy_of_last_step": [round(end["entropy"], 4) for end in ends],
        "all": gains(every),
        **{f"level {level}": gains(every, level) for level in levels},
    }


if __name__ == "__main__":
    main()
