"""What GRPO gains on SmolLM2-135M in the setting ``smollm2``, where every step has new problems.

Written down before the first runs of each row: with a learning rate of 2e-5, seeds 1 to 3 for 200,000 generated tokens
and seeds 4 to 6 for 360,000. Seed 6 was not run: seeds 4 and 5, and seed 4 continued to 600,000 tokens, gained hardly
more than seeds 1 to 3. Then the learning rate was tuned with seed 100, which is not shown. With the tuned rate of 1e-5,
seeds 7 to 9 for 550,000 tokens, in two processes as on any machine of two cores, with nothing beside them; seed 9 was
not run, for want of time. The earlier runs have one process each. Each run has 60 held-out problems with 16 samples
each. ``sample.rows`` and ``learn.micro_tokens`` are given, so that machines of other sizes compute the same passes.

``python benchmarks/smollm2_gain.py ROW [--runs DIR]`` makes the runs of a row that DIR lacks (row 2 before row 3, which
continues one of its runs). It writes pass@k before and after with 95 % intervals over seeds and problems
(:mod:`outrider.bench.crossed`) and draws them beside the curves of training.
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
from matplotlib.figure import Figure

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
    Row(1e-5, 550_000, (7, 8), ranks=2),
)
SIZES = (1, 4, 8, 16)
STEPS_PER_POINT = 10
"""The last point of a curve may be the mean of fewer."""
WORDS = ("--setting", "smollm2", "train.trackers=[]", "sample.rows=128", "learn.micro_tokens=2048")


def trained(folder: Path, row: Row, seed: int) -> Path:
    """The run of a seed; one that was interrupted or has fewer tokens goes on."""
    run = folder / f"grpo-{seed}"
    if run.exists():
        made = load_recipe(str(run / "config.yaml"))
        assert (made.learn.lr, made.train.ranks) == (row.lr, row.ranks), f"{run} has other options"
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


def curve(run: Path, tokens: int) -> dict[str, list[float]]:
    """Tokens so far, and means of the success rate and of the entropy, for every ten steps."""
    end = last(run, tokens)["step"]
    rows = [row for row in RunFolder(run).metrics() if row["step"] <= end]
    parts = [rows[i : i + STEPS_PER_POINT] for i in range(0, len(rows), STEPS_PER_POINT)]
    return {
        "tokens": [part[-1]["tokens"] for part in parts],
        "success": [round(float(np.mean([row["success"] for row in part])), 4) for part in parts],
        "entropy": [round(float(np.mean([row["entropy"] for row in part])), 4) for part in parts],
    }


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
    parser.add_argument("row", type=int, choices=range(1, len(ROWS) + 1), help="number of the row")
    asked = parser.parse_args()
    row = ROWS[asked.row - 1]
    found = gained([trained(asked.runs, row, seed) for seed in row.seeds], row)
    name = f"smollm2_gain/{row.lr}-{row.tokens}"
    keep(name, found)
    picture(found).savefig(RESULTS / f"{name}.png")


def picture(found: dict[str, Any]) -> Figure:
    """Success rate and entropy along training, and pass@k before and after it, of one row."""
    figure = Figure(figsize=(11, 3.2), dpi=130, layout="constrained")
    along, entropy, ends = figure.subplots(1, 3)
    for axes, key, title in (
        (along, "success", "success rate in training"),
        (entropy, "entropy", "entropy per token, nats"),
    ):
        for seed, points in zip(found["seeds"], found["curves"], strict=True):
            axes.plot(np.divide(points["tokens"], 1e3), points[key], marker="o", ms=3, label=f"seed {seed}")
        axes.set_title(title, loc="left")
        axes.set_xlabel("generated tokens (thousands)")
        axes.set_ylim(bottom=0)
    along.legend(frameon=False)
    measured = [found["all"][f"pass@{k}"] for k in SIZES]
    after = [one["after"]["value"] for one in measured]
    arms = [[abs(one["change"][end] - one["change"]["value"]) for one in measured] for end in ("low", "high")]
    ends.plot(SIZES, [one["before"] for one in measured], color="#999999", marker="o", label="before")
    ends.errorbar(SIZES, after, yerr=arms, color="#0072B2", marker="o", capsize=3, label="after")
    ends.set_title("pass@k; bars: 95 % CI of the change", loc="left")
    ends.set_xscale("log", base=2)
    ends.set_xticks(SIZES, [str(k) for k in SIZES])
    ends.set_xlabel("k")
    ends.set_ylim(bottom=0)
    ends.legend(frameon=False)
    for axes in (along, entropy, ends):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def gained(runs: list[Path], row: Row) -> dict[str, Any]:
    """The gains of the runs of a row, and the last step of each run."""
    every = [tallies(run, row.tokens) for run in runs]
    ends = [last(run, row.tokens) for run in runs]
    levels = sorted({tally["level"] for tally in every[0][0].values()})
    return {
        "seeds": row.seeds,
        "tokens": [end["tokens"] for end in ends],
        "steps": [end["step"] for end in ends],
        "entropy_of_last_step": [round(end["entropy"], 4) for end in ends],
        "curves": [curve(run, row.tokens) for run in runs],
        "all": gains(every),
        **{f"level {level}": gains(every, level) for level in levels},
    }


if __name__ == "__main__":
    main()
