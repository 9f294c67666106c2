"""Does ``train.lag=1`` save time on two cores, and what do older weights do to learning?

GRPO on Countdown from the shipped base, three ways with equal generated tokens and seeds: one process that samples and
learns in turn, one process with a lag (a sampling process beside it), and two ranks in turn, the default on two cores.
Learning rate and updates are the recipe's, the same for all. Three seeds, written before the first run. Measured: the
seconds of training (evaluation and disk writes aside), and pass@1 and pass@8 on 300 held-out problems, 8 samples each,
after half of the tokens and at the end; differences from the first way are paired by seed and problem, with 95 %
intervals over problems.

Command: ``python benchmarks/lag.py [folder]``, on an otherwise idle machine; goes on where it was. About five minutes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _machine import keep, rounded

from outrider.measure.bootstrap import bootstrap_mean
from outrider.measure.evaluation import Evaluation
from outrider.measure.passk import pass_at_k
from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder

sys.path.append(str(Path(__file__).parent / "studies"))
from _study import outrider_command

WAYS = {"in turn": ("train.ranks=1",), "lag 1": ("train.ranks=1", "train.lag=1"), "two ranks": ("train.ranks=2",)}
SEEDS, TOKENS = (0, 1, 2), 500_000
RUN = (
    *("train.evaluate_at=[0.5]", f"train.tokens={TOKENS}", "train.trackers=[]"),
    *("evaluate.problems=300", "evaluate.n=8", "evaluate.before=false", "evaluate.greedy=false"),
)


def trained(out: Path, seed: int, *words: str) -> RunFolder:
    """A finished run, which is resumed if it was interrupted."""
    if not (out / "table.md").exists():
        again = ["--resume"] if (out / "config.yaml").exists() else []
        outrider_command("train", "grpo", *RUN, f"seed={seed}", *words, "--out", out, *again)
    return RunFolder(out)


def seconds(run: RunFolder) -> float:
    return sum(map(training_seconds, run.timing()))


def rates(run: RunFolder, k: int, last: bool) -> np.ndarray:
    """pass@k of each problem, at the end or after half of the tokens."""
    found = run.evaluations()
    tallies = Evaluation.from_json(found[max(found) if last else min(found)]).tallies
    return pass_at_k([tally.scorable for tally in tallies], [tally.successes for tally in tallies], k)


def summary(runs: Sequence[RunFolder], bases: Sequence[RunFolder]) -> dict[str, object]:
    """What the runs of one way took and reached, beside those in turn with the same seeds."""
    ratios = [seconds(run) / seconds(base) for run, base in zip(runs, bases, strict=True)]
    found: dict[str, object] = {
        "seconds": [round(seconds(run), 1) for run in runs],
        "seconds over in turn": rounded({"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}),
        "steps": [len(run.metrics()) for run in runs],
    }
    for name, k, last in (("pass@1 at half", 1, False), ("pass@1", 1, True), ("pass@8", 8, True)):
        mine_P, base_P = (np.mean([rates(run, k, last) for run in some], axis=0) for some in (runs, bases))
        change = bootstrap_mean(mine_P - base_P)
        found[name] = rounded(
            {"value": float(mine_P.mean()), "change": change.value, "low": change.low, "high": change.high}
        )
    kl = [row["learn/sampler_kl_k3"] for run in runs for row in run.metrics() if "learn/sampler_kl_k3" in row]
    return found | ({"sampler_kl_k3": round(statistics.mean(kl), 5)} if kl else {})


def main() -> None:
    runs = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    # the ways of a seed one after another, so that a slow half hour of the machine hits all of them
    done = {
        (way, seed): trained(runs / f"{way.replace(' ', '-')}-{seed}", seed, *words)
        for seed in SEEDS
        for way, words in WAYS.items()
    }
    of = {way: [done[way, seed] for seed in SEEDS] for way in WAYS}
    keep("lag", {way: summary(of[way], of["in turn"]) for way in WAYS})


if __name__ == "__main__":
    main()
