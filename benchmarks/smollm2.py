"""GRPO, ``prefix-replay`` and ``dars-hw`` on SmolLM2-135M, three seeds each at equal generated tokens.

Does what holds for models of half a million parameters hold for a pretrained language model? The two recipes are those
that the map recommends where a base solves few problems at pass@1 and most of them at pass@16. Learning rate and
updates a step are the setting's, the same for all. Written down before the first run:

- Task: setting ``smollm2`` with a training set of 128 problems, which GRPO goes through about five times. A replay
  needs problems that come back; the map's benches have four to five epochs too.
- Budget: 200,000 generated tokens a run, the setting's.
- Measured: all 75 held-out problems, 16 samples each, after half of the budget and at its end, and the base twice.
- ``sample.rows`` and ``learn.micro_tokens`` are given, so that machines of other sizes compute the same passes.

``python benchmarks/smollm2.py run [--runs DIR]`` goes on where it was, also with the finished runs that another
machine has packed; ``pack`` packs them into results/smollm2. Every machine makes the warm start once, in half an hour,
equal but for rounding. All nine runs take about five hours on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _finished import pack, unpack
from _map_run import FINISHED, keep, run_bench

RECIPES = ("grpo", "prefix-replay", "dars-hw")
RESULTS = Path(__file__).parent / "results" / "smollm2"
WORDS = (
    *("--setting", "smollm2", "learn.lr=2e-5", "task.pool=128", "sample.rows=128", "learn.micro_tokens=2048"),
    *("evaluate.problems=75", "evaluate.n=16", "--tokens", 200_000, "--points", 2, "--seeds", 3),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "pack"))
    parser.add_argument("--runs", type=Path, default=Path("runs/smollm2"), metavar="DIR", help="folder of the runs")
    asked = parser.parse_args()
    if asked.what == "pack":
        print(f"{RESULTS / FINISHED}: {pack(asked.runs, RESULTS / FINISHED)} runs")
        return
    unpack(RESULTS / FINISHED, asked.runs)
    run_bench(RECIPES, *WORDS, "--out", asked.runs)
    keep(asked.runs, RESULTS)


if __name__ == "__main__":
    main()
