"""DEEP-GRPO's choices: pivots times branches, the weight lambda of the branches' loss, the depth bias gamma.

Claims (arXiv 2602.14169; GSM8K, Qwen2.5-0.5B): P1B8 beats P2B4 beats P1B4 at equal training time, and expand-all
(Figure 5); lambda 1 is best of 0.1 to 10 (Table 4); gamma 2 is best of -20 to 5, where -20 means the prompt (Table 6).

Ours: ``outrider bench`` on the shipped recipes and those in ``recipes/``, differences from ``deep-grpo`` at the end of
equal budgets, on the same problems and seeds, with 95 % intervals. The profile ``countdown`` caps the branches of a
step at 256, so there P1B4 and P2B4 branch twice as many pivots as P1B8 and no fewer rollouts; the override
``explore.1.cap=null`` lifts that.

Command: ``python benchmarks/studies/pivots.py [--sweep NAME] [--runs DIR] [arguments of outrider bench]``, as in
``--seeds 5 --tokens 1_600_000``; interrupted, it goes on. See ``README.md``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _study import BLUE, GREY, HERE, RED, arguments, keep, panels
from matplotlib.axes import Axes

BASE = "deep-grpo"
SWEEPS = {  # in the order of the picture
    "pivots": {"P1B4": "deep-p1b4", "P1B8": BASE, "P2B4": "deep-grpo-p2b4", "all": "deep-grpo-expand-all"},
    "lambda": {x: BASE if x == "1" else f"deep-lambda-{x}" for x in ("0.1", "0.5", "1", "1.5", "2", "10")},
    "gamma": {"root": "deep-root"} | {x: BASE if x == "2" else f"deep-gamma-{x}" for x in ("1", "2", "3", "4", "5")},
}
PAPER = {  # accuracy in %; Figure 5 has no numbers
    "lambda": dict(zip(SWEEPS["lambda"], (65.4, 66.6, 67.7, 67.1, 67.6, 65.9), strict=True)),
    "gamma": dict(zip(SWEEPS["gamma"], (65.5, 66.4, 67.7, 66.5, 66.5, 65.8), strict=True)),
}


def bench(sweeps: list[str], runs: Path, further: list[str]) -> dict[str, Any]:
    """Run what is not finished and read the results."""
    names = dict.fromkeys([BASE, *(name for sweep in sweeps for name in SWEEPS[sweep].values())])
    files = {path.stem: str(path) for path in (HERE / "recipes").glob("*.yaml")}
    recipes = [files.get(name, name) for name in names]
    asked = [sys.executable, "-m", "outrider", "bench", *recipes, "--base", BASE, "--out", str(runs), *further]
    subprocess.run(asked, check=True)
    return json.loads((runs / "results.json").read_bytes())


def draw(axes: Axes, sweep: str, results: dict[str, Any], quantity: str) -> None:
    """Differences from the base, over the values of the sweep; a recipe of which every run failed is a gap."""
    for x, name in enumerate(SWEEPS[sweep].values()):
        arm = results["recipes"].get(name)
        if name == BASE:
            axes.plot(x, 0, "o", color=BLUE)
        elif arm is not None:
            change = arm["minus_base"][quantity]
            if change["low"] is not None:
                axes.vlines(x, change["low"], change["high"], color=RED, linewidth=1.2)
            axes.plot(x, change["value"], "o", color=RED)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(SWEEPS[sweep])), list(SWEEPS[sweep]))
    axes.set_xlim(-0.5, len(SWEEPS[sweep]) - 0.5)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sweep", action="append", choices=list(SWEEPS), help="only this; may be given again")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/study-pivots"), metavar="DIR", help="the bench's folder"
    )
    asked, further = parser.parse_known_args()
    sweeps = asked.sweep or list(SWEEPS)
    results = bench(sweeps, asked.runs, further)
    ends = {name: arm["points"][-1] for name, arm in results["recipes"].items()}
    largest = max((q for q in ends[BASE] if q.startswith("pass@")), key=lambda q: int(q.removeprefix("pass@")))
    titles = [f"{quantity}, by {sweep}" for quantity in ("pass@1", largest) for sweep in sweeps]
    figure, axes = panels(titles, (3.6 * len(sweeps) + 1, 6), rows=2)
    for i, (quantity, sweep) in enumerate((q, s) for q in ("pass@1", largest) for s in sweeps):
        draw(axes[i], sweep, results, quantity)
        axes[i].set_ylabel(f"minus {BASE}'s" if i % len(sweeps) == 0 else "")
    for row in (axes[: len(sweeps)], axes[len(sweeps) :]):  # one scale, so that sweeps can be compared
        low, high = zip(*(each.get_ylim() for each in row), strict=True)
        for each in row:
            each.set_ylim(min(low), max(high))
    numbers = {
        "sweeps": {sweep: SWEEPS[sweep] for sweep in sweeps},
        "end": {name: {q: end[q] for q in ("pass@1", largest, "tokens", "steps")} for name, end in ends.items()},
        "minus_base": {
            name: {q: arm["minus_base"][q] for q in ("pass@1", largest)}
            for name, arm in results["recipes"].items()
            if name != BASE
        },
        "paper": PAPER,
        "bench": results["bench"],
    }
    keep("pivots", numbers, figure, asked.out, seeds=list(range(results["bench"]["seeds"])))


if __name__ == "__main__":
    main()
