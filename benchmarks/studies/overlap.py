"""What do waves, refill, branches and sampling at the same time as learning cost, on 1, 8 and 64 GPUs?

A step samples its rollouts, then learns from them. What several rounds cost: each waits for the longest response of the
one before, while a GPU with few rows is slow. What ``train.lag: 1`` saves: the next step is sampled in the learner's
time, by weights that are one step older. What filling the ends of waves with rows of other steps would save as well.

A simulation (``_simulated_engine.py``): 64 problems a GPU with 8 responses each, mean length 512 of at most 4,096
tokens, log-deviation 0.8. A GPU samples 20,123 tokens/s with 256 rows and learns 47,209 tokens/s, as measured for 0.5 B
on an H200 (``benchmarks/results/gpu.json``); a step with one row takes 5 ms (assumed). A weight sync takes 1.28 s
(measured) or 0.2 s (the aim). Learning is split evenly over all GPUs, without the cost of collectives.

- *one wave*: GRPO. *three waves*: XRPO's two rounds after a first one, a half and two quarters of the rollouts.
  *refill*: DAPO with mixed groups in half of the cases: rounds of a half, a quarter, … of the problems, five in all.
  *branches*: DEEP-GRPO: 8 responses, then 8 continuations of half the length for half of the problems.
- *in turn*: every GPU samples, then learns, as with vLLM in the run's own processes. *divided*: the GPUs are divided
  into samplers and learners, as with vLLM servers, and take turns. Here and below by the best division.
- *lag*: divided, and a step takes as long as its sampling or as learning, whichever is longer, and the weight sync. One
  GPU cannot do both at once.
- *gaps filled*: a lower bound, if rows of two steps were sampled together: a step takes at least as long as sampling at
  full width, as learning, and as half of the time from its first request to its update. Not implemented.

Command: ``python benchmarks/studies/overlap.py``. Seeds 0 to 9.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from _simulated_engine import Gpu, calibrated, drained, lengths
from _study import BLUE, GREEN, GREY, ORANGE, RED, arguments, keep, panels
from numpy.random import Generator
from numpy.typing import NDArray

GPUS = (1, 8, 64)
PROBLEMS, N = 64, 8
MEAN, LONGEST, SPREAD = 512.0, 4096, 0.8
SYNCS = {"sync 1.28 s": 1.28, "sync 0.2 s": 0.2}
SEEDS = range(10)
MEASURED = Path(__file__).parents[1] / "results" / "gpu.json"
WAYS = ("one wave", "three waves", "refill", "branches")


BARS = (
    ("at full width", GREY, "sampling at full width"),
    ("in turn", BLUE, "every GPU samples, then learns"),
    ("divided", RED, "divided GPUs, in turn"),
    ("lag", ORANGE, "train.lag=1"),
    ("gaps filled", GREEN, "lag and gaps filled (bound)"),
)


def rounds(way: str, rng: Generator, problems: int) -> list[NDArray[np.int64]]:
    """The lengths of the responses of each round of a step."""

    def drawn(count: int, mean: float = MEAN) -> NDArray[np.int64]:
        return lengths(rng, count, mean, LONGEST, SPREAD)

    total = problems * N
    if way == "one wave":
        return [drawn(total)]
    if way == "three waves":
        return [drawn(total // 2), drawn(total // 4), drawn(total // 4)]
    if way == "refill":
        return [drawn(total), *(drawn(max(1, problems >> k) * N) for k in range(1, 5))]
    return [drawn(total), drawn(total // 2, MEAN / 2)]


def step(gpu: Gpu, gpus: int, parts: list[NDArray[np.int64]], sync: float) -> dict[str, float]:
    """Seconds of a step: all GPUs sample, then all learn; with a lag; and with a lag and gaps filled."""
    tokens = sum(int(part.sum()) for part in parts)
    sampling, learning = sum(drained(gpu, gpus, part) for part in parts), tokens / (gpu.learn * gpus)
    full = tokens * gpu.seconds(gpu.rows) / gpu.rows
    divided, lag, filled = [], [], []
    for samplers in sorted({max(1, round(gpus * share)) for share in np.linspace(0.4, 0.9, 11)} - {gpus}):
        waves, updates = sum(drained(gpu, samplers, part) for part in parts), tokens / (gpu.learn * (gpus - samplers))
        divided.append(waves + updates + sync)
        lag.append(max(waves, updates) + sync)
        filled.append(max(full / samplers + sync, updates + sync, (waves + updates + sync) / 2))
    in_turn = sampling + learning + sync
    return {
        "in turn": in_turn,
        "divided": min(divided, default=in_turn),
        "lag": min(lag, default=in_turn),
        "gaps filled": min(filled, default=in_turn),
        "sampling": sampling,
        "tokens": float(tokens),
        "at full width": full / gpus,
    }


def main() -> None:
    out = arguments(__doc__).parse_args().out
    measured = json.loads(MEASURED.read_text())
    sampler = measured["0.5b/sampling/vllm"]["tokens_per_second"]
    gpu = calibrated(sampler, 256, alone=0.005, rows=256, learn=measured["0.5b/learning/local"]["tokens_per_second"])
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for gpus in GPUS:
        for way in WAYS:
            found = [step(gpu, gpus, rounds(way, np.random.default_rng(s), PROBLEMS * gpus), 1.28) for s in SEEDS]
            mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
            numbers.setdefault(f"{gpus} GPUs", {})[way] = mean | {
                "tokens per GPU and second": mean["tokens"] / mean["in turn"] / gpus,
                "lag over in turn": mean["lag"] / mean["in turn"],
                "lag over in turn, sync 0.2 s": (mean["lag"] - 1.08) / (mean["in turn"] - 1.08),
                "lag over divided": mean["lag"] / mean["divided"],
                "gaps filled over in turn": mean["gaps filled"] / mean["in turn"],
                "sampling over full width": mean["sampling"] / mean["at full width"],
            }
    figure, plots = panels([f"{gpus} GPU{'s' * (gpus > 1)}" for gpus in GPUS], (13, 4))
    for axes, gpus in zip(plots, GPUS, strict=True):
        at, here = np.arange(len(WAYS)), numbers[f"{gpus} GPUs"]
        for i, (name, color, label) in enumerate(BARS):
            axes.bar(at + 0.16 * (i - 2), [here[w][name] for w in WAYS], 0.15, color=color, label=label)
        axes.set_xticks(at, WAYS)
        axes.set_ylabel("seconds of a step")
    figure.legend(*plots[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=5)
    keep("overlap", numbers, figure, out, seeds=list(SEEDS))


if __name__ == "__main__":
    main()
