"""How hard is each embedded setting for its base, and where does a long run end.

The base of each setting, 1,024 samples of each of the first 300 held-out problems at the temperature of training.
*Curve*: unbiased pass@k with the bootstrap's 95 % interval over problems. *Spread*: the share of problems by their pass
rate, as groups of eight see it: out of reach (no success in 1,024), rare (below 1/16, mostly groups without a success),
mixed, and easy (above 15/16, mostly groups without a failure). *Long run*: GRPO with 9,600,000 tokens, where the map
(``benchmarks/map.py``) has 3,600,000 and 2,400,000 on ``prose``, on new problems all along, two seeds, by ``outrider
bench``, which takes 64 samples, and 16 on ``prose``; bands are 95 % intervals over seeds and problems.

Command: ``python benchmarks/studies/settings.py [SETTING ...] [--runs DIR]``, about an hour of two cores for a setting,
more for ``prose``; what is finished, in DIR or in ``settings.json``, is taken as it is. Seed 0 of the evaluation.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _study import BLUE, GREEN, GREY, ORANGE, RED, arguments, commit, keep, outrider_command, panels
from matplotlib.figure import Figure

from outrider.config import load_recipe
from outrider.measure.evaluation import Evaluation

SETTINGS = {"countdown": GREY, "frontier": BLUE, "sparse": RED, "prose": GREEN}
PROBLEMS, SAMPLES, LONG = 300, 1024, 9_600_000
SHARES = {"out of reach": GREY, "rare": RED, "mixed": ORANGE, "easy": GREEN}


def evaluated(setting: str, runs: Path) -> Evaluation:
    """Of the setting's base; a finished one is read."""
    out = runs / setting
    if not (out / "table.md").exists():
        recipe = load_recipe("grpo", setting=setting)
        task = json.dumps({recipe.task.name: recipe.task.model_dump(mode="json")})
        told = [f"sample.max_tokens={recipe.sample.max_tokens}", "evaluate.greedy=false"]
        asked = [recipe.model, "--task", task, "--n", SAMPLES, "--problems", PROBLEMS, "--out", out, *told]
        outrider_command("evaluate", *asked)
    [file] = sorted((out / "evaluations").glob("*.json"))
    return Evaluation.from_json(json.loads(file.read_bytes()))


def long_run(setting: str, runs: Path) -> list[dict[str, Any]]:
    """Tokens, pass@1 and the largest pass@k of GRPO at equal shares of its budget, from before training on."""
    out = runs / f"{setting}-long"
    asked = ["grpo", "--setting", setting, "--seeds", 2, "--tokens", LONG, "--points", 8, "--out", out]
    outrider_command("bench", *asked, one_thread=True)
    found = json.loads((out / "results.json").read_bytes())
    points = [{"tokens": {"value": 0.0}} | found["before"], *found["recipes"]["grpo"]["points"]]
    largest = max((name for name in found["before"] if name.startswith("pass@")), key=lambda name: int(name[5:]))
    ends = ("value", "low", "high")
    return [
        {"tokens": point["tokens"]["value"]} | {q: {end: point[q][end] for end in ends} for q in ("pass@1", largest)}
        for point in points
    ]


def spread(evaluation: Evaluation) -> dict[str, float]:
    """Shares of problems by their pass rate."""
    rates = [tally.successes / tally.scorable for tally in evaluation.tallies]
    found = {
        "out of reach": sum(rate == 0 for rate in rates),
        "rare": sum(0 < rate < 1 / 16 for rate in rates),
        "easy": sum(rate > 15 / 16 for rate in rates),
    }
    found["mixed"] = len(rates) - sum(found.values())
    return {name: found[name] / len(rates) for name in SHARES}


def measured(setting: str, runs: Path) -> dict[str, Any]:
    """All that is kept of a setting; plain data."""
    found = evaluated(setting, runs)
    of_k = found.overall.pass_at
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "pass_at": {str(k): {"value": of_k[k].value, "low": of_k[k].low, "high": of_k[k].high} for k in of_k},
        "problems": spread(found),
        "by_level": {
            each.level: {"pass@1": each.pass_at[1].value, f"pass@{SAMPLES}": each.pass_at[SAMPLES].value}
            for each in found.levels
        },
        "tokens": found.overall.length,
        "long": long_run(setting, runs),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Curves, spreads and long runs of the settings there are."""
    titles = ["the base's pass@k", "problems by the base's pass rate", "a long run of GRPO"]
    figure, (curve, shares, long) = panels(titles, (14, 4))
    for setting, found in numbers.items():
        colour, points = SETTINGS[setting], found["long"]
        for name, line in zip([name for name in points[0] if name != "tokens"], ("-", "--"), strict=True):
            millions = [point["tokens"] / 1e6 for point in points]
            value, low, high = ([point[name][end] for point in points] for end in ("value", "low", "high"))
            long.plot(millions, value, line, color=colour, marker="o", ms=3)
            long.fill_between(millions, low, high, color=colour, alpha=0.15, lw=0)
        ks = [int(k) for k in found["pass_at"]]
        value, low, high = ([each[end] for each in found["pass_at"].values()] for end in ("value", "low", "high"))
        curve.plot(ks, value, color=colour, label=setting)
        curve.fill_between(ks, low, high, color=colour, alpha=0.2)
    curve.set_xscale("log", base=2)
    curve.set_xticks(ticks := [4**i for i in range(6)], map(str, ticks))
    curve.set_xlabel("k")
    curve.set_ylim(0, 1)
    curve.legend(frameon=False, fontsize=8)
    long.set_xlabel("million generated tokens; dashed: pass@64 (prose: 16)")
    long.set_ylim(0, 1)
    left = [0.0] * len(numbers)
    for name, colour in SHARES.items():
        widths = [found["problems"][name] for found in numbers.values()]
        shares.barh([*numbers], widths, left=left, color=colour, label=name)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    shares.invert_yaxis()
    shares.set_xlim(0, 1)
    shares.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    return figure


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "settings", nargs="*", default=[*SETTINGS], metavar="SETTING", help="all, unless some are named"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/study-settings"), metavar="DIR", help="kept")
    asked = parser.parse_args()
    if unknown := {*asked.settings} - {*SETTINGS}:
        parser.error(f"no such setting: {', '.join(sorted(unknown))}; there are {', '.join(SETTINGS)}")
    kept = asked.out / "settings.json"
    found = json.loads(kept.read_bytes()) if kept.exists() else {}
    numbers = {setting: found[setting] for setting in SETTINGS if setting in found}
    for setting in asked.settings:
        if setting in numbers:
            print(f"{setting} is in {kept}, and is taken as it is there")
            continue
        numbers[setting] = measured(setting, asked.runs)
        numbers = {each: numbers[each] for each in SETTINGS if each in numbers}
        keep("settings", numbers, draw(numbers), asked.out, seeds=[0, 1])  # the machine may not outlive them all
    draw(numbers).savefig(asked.out / "settings.png")


if __name__ == "__main__":
    main()
