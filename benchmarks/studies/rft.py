"""Does rejection fine-tuning keep what RL narrows, and does what it keeps help RL later?

Claims (arXiv 2508.07534, section 4.4.1, Table 3; Qwen2.5-32B, iterations of 1,100 responses): imitating the policy's
own right responses raises pass@1; 5 % of wrong ones, or choosing those of high entropy or rollout branching factor,
raises pass@k for a little pass@1; noise and branching together end above RL's pass@k; breadth kept is speed gained
later. And its pipeline, SFT on new data before RL, raises what RL alone only sharpens (section 2.4).

Ours: the shipped base in two settings, today's Countdown and a frontier of wider numbers where most problems are not
solved. *Table 3*: ``outrider bench`` of GRPO and the five recipes, equal tokens, learning rate tuned for each. *Later*:
GRPO from each of their last policies, seed by seed, with as many tokens again, on other problems and with a new
optimizer; GRPO from GRPO's is what it is compared with, and its learning rate is the one tuned from the base.
*Pipeline* (frontier alone, of whose problems nine in ten are wider than any that the base saw): SFT on given solutions
of frontier problems, RL from the base, RL from that SFT.

Command: ``python benchmarks/studies/rft.py --setting frontier [--runs DIR]`` (two hours of two cores where DIR holds
nothing); interrupted, it goes on. Seeds 0 to 4. See ``README.md``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from _models import BASE, longer_sft
from _study import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, arguments, keep, outrider_command, panels
from matplotlib.axes import Axes

from outrider.bench.crossed import Estimate, difference, estimate
from outrider.bench.results import Measured
from outrider.config import load_recipe
from outrider.measure.evaluation import Evaluation, pass_values
from outrider.runs.folder import RunFolder

SETTINGS = ("countdown", "frontier")
MEASURED = ["evaluate.problems=300", "evaluate.n=64"]
RL = "grpo"
METHODS = (RL, "rft", "rft-noisy", "rft-entropy", "rft-rbf", "rft-noisy-rbf")
LATER = (RL, "rft", "rft-rbf", "rft-noisy-rbf")
SEEDS, TOKENS, KS = range(5), 1_200_000, (1, 8, 64)
COLOURS = dict(zip((*METHODS, "sft"), (BLACK, GREY, ORANGE, SKY, BLUE, RED, GREEN), strict=True)) | {"base": PINK}


def bench(setting: str, runs: Path) -> dict[str, Any]:
    """Table 3 at our scale; what is finished is taken as it is."""
    place = runs / "bench"
    asked = ["bench", *METHODS, "--seeds", str(len(SEEDS)), "--tokens", str(TOKENS), "--points", "2"]
    outrider_command(
        *asked, "--tune", "learn.lr=5e-5,1e-4,2e-4", "--out", place, "--setting", setting, *MEASURED, one_thread=True
    )
    found: dict[str, Any] = json.loads((place / "results.json").read_bytes())
    return found


def trained(run: Path, model: Path | str, rate: float, setting: str, seed: int) -> None:
    """GRPO from a model, measured in the middle and at the end, on a stream of problems that no run before has had."""
    if (run / "table.md").exists():
        return
    again = ["--resume"] if (run / "config.yaml").exists() else []
    told = [f"model={model}", f"learn.lr={rate}", f"seed={seed + 100}", f"task.countdown.seed={seed + 100}"]
    told += [f"train.tokens={TOKENS}", "train.ranks=1", "train.evaluate_at=[0.5]", "evaluate.before=true"]
    outrider_command("train", RL, *told, "--setting", setting, *MEASURED, "--out", run, *again, one_thread=True)


def together(jobs: Sequence[tuple[Any, ...]]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(trained, *job) for job in jobs]:
            done.result()


def later(setting: str, runs: Path, rate: float) -> dict[str, list[list[Evaluation]]]:
    """Evaluations along GRPO from the last policy of each method, by its seeds."""
    places = {name: [runs / "later" / f"{name}-{seed}" for seed in SEEDS] for name in LATER}
    jobs = [
        (place, runs / "bench" / "cells" / name / str(seed) / "model", rate, setting, seed)
        for name, each in places.items()
        for seed, place in zip(SEEDS, each, strict=True)
    ]
    together(jobs)
    return {name: [along(place) for place in each] for name, each in places.items()}


def pipeline(setting: str, runs: Path, rate: float) -> dict[str, list[list[Evaluation]]]:
    """Evaluations along GRPO from the base, and from the base that was taught problems of the setting."""
    sft = longer_sft(runs, task=load_recipe(RL, ["task.countdown.seed=2"], setting).task)
    places = {name: [runs / "pipeline" / f"{name}-{seed}" for seed in SEEDS] for name in ("base", "sft")}
    models = {"base": BASE, "sft": sft}
    together(
        [
            (place, models[name], rate, setting, seed)
            for name, each in places.items()
            for seed, place in zip(SEEDS, each, strict=True)
        ]
    )
    return {name: [along(place) for place in each] for name, each in places.items()}


def along(run: Path) -> list[Evaluation]:
    return [Evaluation.from_json(data) for _, data in sorted(RunFolder(run).evaluations().items())]


def measured(seeds: Sequence[Sequence[Evaluation]], point: int, k: int) -> Measured:
    rows = np.array([pass_values(each[point].tallies, k) for each in seeds])
    return Measured(np.nan_to_num(rows), (~np.isnan(rows)).astype(np.float64))


def numbers_of(found: Mapping[str, Sequence[Sequence[Evaluation]]], base: str) -> dict[str, Any]:
    """Means along training, and differences from ``base`` at every evaluation, paired by seed and problem."""
    points = range(len(next(iter(found.values()))[0]))

    def each(of: Any) -> list[dict[str, dict[str, float]]]:
        return [{f"pass@{k}": of(point, k)._asdict() for k in KS} for point in points]

    def mean(name: str) -> Any:
        return lambda point, k: estimate(measured(found[name], point, k))

    def change(name: str) -> Any:
        def less(point: int, k: int) -> Estimate:
            return difference(measured(found[base], point, k), measured(found[name], point, k))

        return less

    return {
        "means": {name: each(mean(name)) for name in found},
        "less": {name: each(change(name)) for name in found if name != base},
        "of": base,
    }


def draw(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """pass@64 over pass@1; the first point of a line is open."""
    for name, points in lines.items():
        x, y = zip(*points, strict=True)
        axes.plot(x, y, "-", color=COLOURS[name], linewidth=1.4)
        axes.plot(x[1:], y[1:], "o", color=COLOURS[name], markersize=4.5, label=name)
        axes.plot(x[0], y[0], "o", color=COLOURS[name], markerfacecolor="white", markersize=4.5)
    axes.set(xlabel="pass@1")
    axes.legend(frameon=False, fontsize=8)


def ends(points: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    return [(point["pass@1"]["value"], point["pass@64"]["value"]) for point in points]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--setting", choices=SETTINGS, default="frontier")
    parser.add_argument("--runs", type=Path, default=Path("runs/study-rft"), metavar="DIR", help="runs; kept")
    asked = parser.parse_args()
    runs = asked.runs / asked.setting
    table = bench(asked.setting, runs)
    rate = float(table["tuning"][RL]["chosen"]["learn.lr"])
    parts = {"later": numbers_of(later(asked.setting, runs, rate), RL)}
    if asked.setting != "countdown":  # the base knows all problems of that
        parts["pipeline"] = numbers_of(pipeline(asked.setting, runs, rate), "base")
    titles = ["equal tokens from the base", "GRPO afterwards, as many again", "SFT on new data, then GRPO"][
        : len(parts) + 1
    ]
    figure, axes = panels(titles, (4.6 * len(titles), 4.2))
    start = ends([table["before"]])
    draw(axes[0], {name: start + ends(arm["points"]) for name, arm in table["recipes"].items()})
    for panel, part in zip(axes[1:], parts.values(), strict=True):
        draw(panel, {name: ends(points) for name, points in part["means"].items()})
    axes[0].set_ylabel("pass@64")
    kept = {
        name: {"end": {q: arm["points"][-1][q] for q in (*(f"pass@{k}" for k in KS), "tokens", "steps")},
               "minus_grpo": arm["minus_base"], "at_equal_pass@1": arm["minus_base_at_equal_pass@1"],
               "at_equal_steps": arm["minus_base_at_equal_steps"], "tuning": table["tuning"][name]}
        for name, arm in table["recipes"].items()
    }  # fmt: skip
    numbers = {"before": table["before"], "table_3": kept, **parts, "grpo_rate": rate}
    keep(f"rft_{asked.setting}", numbers, figure, asked.out, seeds=list(SEEDS))


if __name__ == "__main__":
    main()
