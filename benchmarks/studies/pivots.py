"""DEEP-GRPO's choices: pivots times branches, the weight lambda of the branches' loss, the depth bias gamma.

Claims (arXiv 2602.14169; GSM8K, Qwen2.5-0.5B): P1B8 beats P2B4 beats P1B4 at equal training time, and expand-all
(Figure 5); lambda 1 is best of 0.1 to 10 (Table 4); gamma 2 is best of -20 to 5, where -20 means the prompt (Table 6).

Ours: ``outrider bench`` on the shipped recipes and those in ``recipes/``, differences from ``deep-grpo`` at the end of
equal budgets, on the same problems and seeds, with 95 % intervals. The setting ``countdown`` caps the branches of a
step at 256, so there P1B4 and P2B4 branch twice as many pivots as P1B8 and no fewer rollouts. The sweep of pivots lifts
the cap for all, as in the paper, and so is a bench of its own with a base of its own; the other two share one, capped.

Command: ``python benchmarks/studies/pivots.py [--sweep NAME] [--runs DIR] [arguments of outrider bench]``, as in
``--seeds 5 --tokens 1_600_000``; interrupted, it goes on. ``--dry-run`` prints the plans. See ``README.md``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _study import BLUE, GREY, HERE, RED, arguments, keep, outrider_command, panels
from matplotlib.axes import Axes

BASE = "deep-grpo"
SWEEPS = {  # in the order of the picture
    "pivots": {"P1B4": "deep-p1b4", "P1B8": BASE, "P2B4": "deep-grpo-p2b4", "all": "deep-grpo-expand-all"},
    "lambda": {x: BASE if x == "1" else f"deep-lambda-{x}" for x in ("0.1", "0.5", "1", "1.5", "2", "10")},
    "gamma": {"root": "deep-root"} | {x: BASE if x == "2" else f"deep-gamma-{x}" for x in ("1", "2", "3", "4", "5")},
}
UNCAPPED = ("pivots",)  # numbers of branches can only be compared where nothing caps them
PAPER = {  # accuracy in %; Figure 5 has no numbers
    "lambda": dict(zip(SWEEPS["lambda"], (65.4, 66.6, 67.7, 67.1, 67.6, 65.9), strict=True)),
    "gamma": dict(zip(SWEEPS["gamma"], (65.5, 66.4, 67.7, 66.5, 66.5, 65.8), strict=True)),
}


def bench(sweeps: list[str], runs: Path, further: list[str]) -> dict[str, Any]:
    """Run what is not finished; the results of each sweep, nothing after a dry run."""
    found: dict[str, Any] = {}
    for name, overrides in (("capped", []), ("uncapped", ["explore.1.cap=null"])):
        if of_bench := [sweep for sweep in sweeps if (sweep in UNCAPPED) == bool(overrides)]:
            asked = ["bench", *recipes(of_bench), "--base", BASE, "--out", runs / name]
            outrider_command(*asked, *further, *overrides)
            if "--dry-run" not in further:
                found |= dict.fromkeys(of_bench, json.loads((runs / name / "results.json").read_bytes()))
    return found


def recipes(sweeps: list[str]) -> list[str]:
    """Names or files of all values, the base first."""
    files = {path.stem: str(path) for path in (HERE / "recipes").glob("*.yaml")}
    names = dict.fromkeys([BASE, *(name for sweep in sweeps for name in SWEEPS[sweep].values())])
    return [files.get(name, name) for name in names]


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
    if not results:
        return
    ends = {s: {name: arm["points"][-1] for name, arm in results[s]["recipes"].items()} for s in sweeps}
    end = ends[sweeps[0]][BASE]
    largest = max((q for q in end if q.startswith("pass@")), key=lambda q: int(q.removeprefix("pass@")))
    titles = [f"{quantity}, by {sweep}" for quantity in ("pass@1", largest) for sweep in sweeps]
    figure, axes = panels(titles, (3.6 * len(sweeps) + 1, 6), rows=2)
    for i, (quantity, sweep) in enumerate((q, s) for q in ("pass@1", largest) for s in sweeps):
        draw(axes[i], sweep, results[sweep], quantity)
        axes[i].set_ylabel(f"minus {BASE}'s" if i % len(sweeps) == 0 else "")
    for row in (axes[: len(sweeps)], axes[len(sweeps) :]):  # one scale, so that sweeps can be compared
        low, high = zip(*(each.get_ylim() for each in row), strict=True)
        for each in row:
            each.set_ylim(min(low), max(high))
    numbers = {sweep: numbers_of(sweep, results[sweep], ends[sweep], largest) for sweep in sweeps}
    seeds = results[sweeps[0]]["bench"]["seeds"]
    keep("pivots", numbers, figure, asked.out, seeds=list(range(seeds)))


def numbers_of(sweep: str, results: dict[str, Any], ends: dict[str, Any], largest: str) -> dict[str, Any]:
    """What is kept of one sweep, by its values."""
    arms = {value: name for value, name in SWEEPS[sweep].items() if name in ends}
    return {
        "recipes": SWEEPS[sweep],
        "end": {v: {q: ends[name][q] for q in ("pass@1", largest, "tokens", "steps")} for v, name in arms.items()},
        "minus_base": {
            value: {q: results["recipes"][name]["minus_base"][q] for q in ("pass@1", largest)}
            for value, name in arms.items()
            if name != BASE
        },
        "paper": PAPER.get(sweep),
        "bench": results["bench"],
    }


if __name__ == "__main__":
    main()
