"""What GRPO gains on SmolLM2-135M in the setting ``smollm2``, where every step has new problems.

Written down before the first runs of each row: with a learning rate of 2e-5, seeds 1 to 3 for 200,000 generated tokens
and seeds 4 to 6 for 360,000. Seed 6 was not run: seeds 4 and 5, and seed 4 continued to 600,000 tokens, gained hardly
more than seeds 1 to 3. Then the learning rate was tuned with seed 100, which is not shown. With the tuned rate of 1e-5,
seeds 7 to 9 for 550,000 tokens. Each run has one process, and 60 held-out problems with 16 samples each.
``sample.rows`` and ``learn.micro_tokens`` are given, so that machines of other sizes compute the same passes.

``python benchmarks/smollm2_gain.py [--runs DIR]`` makes the runs that DIR lacks, one to two hours of a core each, and
writes pass@k before and after with 95 % intervals over seeds and problems (:mod:`outrider.bench.crossed`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _machine import keep

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


ROWS = (
    Row(2e-5, 200_000, (1, 2, 3)),
    Row(2e-5, 360_000, (4, 5)),
    Row(2e-5, 600_000, (4,)),
    Row(1e-5, 550_000, (7, 8, 9)),
)
SIZES = (1, 4, 8, 16)
WORDS = ("--setting", "smollm2", "train.ranks=1", "train.trackers=[]", "sample.rows=128", "learn.micro_tokens=2048")


def trained(folder: Path, seed: int, lr: float, tokens: int) -> Path:
    """The run of a seed; one that was interrupted or has fewer tokens goes on."""
    run = folder / f"grpo-{seed}"
    assert not run.exists() or load_recipe(str(run / "config.yaml")).learn.lr == lr, f"{run} has another learning rate"
    if not (run / "table.md").exists() or last(run, tokens)["tokens"] < tokens:
        again = ["--resume", "--force"] if run.exists() else []
        words = [*WORDS, f"learn.lr={lr}", f"train.tokens={tokens}", f"seed={seed}", "--out", str(run), *again]
        subprocess.run([sys.executable, "-m", "outrider", "train", "grpo", *words], check=True)
    return run


def last(run: Path, tokens: int) -> dict[str, Any]:
    """The metrics of the step that reached a number of generated tokens, or of the last step."""
    rows = RunFolder(run).metrics()
    return next((row for row in rows if row["tokens"] >= tokens), rows[-1])


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
    folder = parser.parse_args().runs
    keep(
        "smollm2_gain",
        {
            f"lr {row.lr}, {row.tokens} tokens": gained(
                [trained(folder, seed, row.lr, row.tokens) for seed in row.seeds], row.seeds, row.tokens
            )
            for row in ROWS
        },
    )


def gained(runs: list[Path], seeds: tuple[int, ...], tokens: int) -> dict[str, Any]:
    """The gains of the runs of one budget, and the last step of each run."""
    every = [tallies(run, tokens) for run in runs]
    ends = [last(run, tokens) for run in runs]
    levels = sorted({tally["level"] for tally in every[0][0].values()})
    return {
        "seeds": seeds,
        "tokens": [row["tokens"] for row in ends],
        "steps": [row["step"] for row in ends],
        "entropy_of_last_step": [round(row["entropy"], 4) for row in ends],
        "all": gains(every),
        **{f"level {level}": gains(every, level) for level in levels},
    }


if __name__ == "__main__":
    main()
