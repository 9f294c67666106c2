"""How hard is each embedded setting for its base, and where does a long run end.

The base of each setting, 1,024 samples of each of the first 300 held-out problems at the temperature of training.
*Curve*: unbiased pass@k with the bootstrap's 95 % interval over problems. *Spread*: the share of problems by their pass
rate, as groups of eight see it: out of reach (no success in 1,024), rare (below 1/16, mostly groups without a success),
mixed, and easy (above 15/16, mostly groups without a failure). *Long run*: GRPO with eight times the tokens of the
methods' benches, two seeds, by ``outrider bench``, which takes 64 samples, and 16 on ``prose``.

Command: ``python benchmarks/studies/settings.py [--runs DIR]`` (five hours of two cores where DIR holds nothing);
what is finished is taken as it is. Seed 0 of the evaluation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _study import BLUE, GREEN, GREY, ORANGE, RED, arguments, keep, outrider_command, panels

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


def long_run(setting: str, runs: Path) -> list[dict[str, float]]:
    """Tokens, pass@1 and the largest pass@k of GRPO at equal shares of its budget, from before training on; means."""
    out = runs / f"{setting}-long"
    asked = ["grpo", "--setting", setting, "--seeds", 2, "--tokens", LONG, "--points", 8, "--out", out]
    outrider_command("bench", *asked, one_thread=True)
    found = json.loads((out / "results.json").read_bytes())
    points = [{"tokens": {"value": 0.0}} | found["before"], *found["recipes"]["grpo"]["points"]]
    largest = max((name for name in found["before"] if name.startswith("pass@")), key=lambda name: int(name[5:]))
    return [{name: point[name]["value"] for name in ("tokens", "pass@1", largest)} for point in points]


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


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/study-settings"), metavar="DIR", help="kept")
    asked = parser.parse_args()
    titles = ["the base's pass@k", "problems by the base's pass rate", "a long run of GRPO"]
    figure, (curve, shares, long) = panels(titles, (14, 4))
    numbers: dict[str, Any] = {}
    for setting, colour in SETTINGS.items():
        found = evaluated(setting, asked.runs)
        of_k = found.overall.pass_at
        numbers[setting] = {
            "pass_at": {k: {"value": of_k[k].value, "low": of_k[k].low, "high": of_k[k].high} for k in of_k},
            "problems": spread(found),
            "by_level": {
                each.level: {"pass@1": each.pass_at[1].value, f"pass@{SAMPLES}": each.pass_at[SAMPLES].value}
                for each in found.levels
            },
            "tokens": found.overall.length,
            "long": (points := long_run(setting, asked.runs)),
        }
        for name, line in zip([name for name in points[0] if name != "tokens"], ("-", "--"), strict=True):
            millions = [point["tokens"] / 1e6 for point in points]
            long.plot(millions, [point[name] for point in points], line, color=colour, marker="o", ms=3)
        curve.plot([*of_k], [of_k[k].value for k in of_k], color=colour, label=setting)
        curve.fill_between([*of_k], [of_k[k].low for k in of_k], [of_k[k].high for k in of_k], color=colour, alpha=0.2)
    curve.set_xscale("log", base=2)
    curve.set_xticks(ks := [4**i for i in range(6)], map(str, ks))
    curve.set_xlabel("k")
    curve.set_ylim(0, 1)
    curve.legend(frameon=False, fontsize=8)
    long.set_xlabel("million generated tokens; dashed: pass@64 (prose: 16)")
    long.set_ylim(0, 1)
    left = [0.0] * len(numbers)
    for name, colour in SHARES.items():
        widths = [numbers[setting]["problems"][name] for setting in numbers]
        shares.barh([*numbers], widths, left=left, color=colour, label=name)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    shares.invert_yaxis()
    shares.set_xlim(0, 1)
    shares.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    keep("settings", numbers, figure, asked.out, seeds=[0, 1])


if __name__ == "__main__":
    main()
