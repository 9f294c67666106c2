"""Read the map's committed benches, and write their estimates."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from _map_plan import COMPARISON, SETTINGS, confirmations

from outrider.bench.crossed import Estimate
from outrider.bench.tables import NONE, as_change, as_number

Results = Mapping[str, Any]


class Setting(NamedTuple):
    """What was measured in a setting."""

    comparison: Results | None = None
    confirmations: tuple[Results, ...] = ()
    """In the order in which they were run: the last one counts."""

    @property
    def benches(self) -> tuple[Results, ...]:
        return (*([self.comparison] if self.comparison else []), *self.confirmations)


def done(out: Path) -> dict[str, Setting]:
    """The settings with a comparison or a confirmation that is done."""
    settings = {}
    for name in SETTINGS:
        [compared] = _finished(out / name, [COMPARISON]) or [None]
        setting = Setting(compared, (*_finished(out / name, [bench.folder for bench in confirmations(name)]),))
        if setting.benches:
            settings[name] = setting
    return settings


def comparisons(settings: Mapping[str, Setting]) -> dict[str, Results]:
    """Those that are done, by setting."""
    return {name: setting.comparison for name, setting in settings.items() if setting.comparison}


def _finished(place: Path, folders: Sequence[str]) -> list[Results]:
    return [read_bench(place / folder) for folder in folders if (place / folder / "results.json").exists()]


def read_bench(folder: Path) -> Results:
    """The results of a bench, with its setting and folder, its table of numbers, and every recipe's ``learn``."""
    results: dict[str, Any] = json.loads((folder / "results.json").read_bytes())
    with (folder / "numbers.csv").open(encoding="utf-8", newline="") as file:
        numbers = [*csv.DictReader(file)]
    recipes = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in (folder / "recipes").glob("*.yaml")}
    learn = {name: recipe["learn"] for name, recipe in recipes.items()}
    return results | {"setting": folder.parent.name, "folder": folder.name, "numbers": numbers, "learn": learn}


def largest(found: Results) -> str:
    """The name of pass@k with all samples of an evaluation.

    >>> largest({"before": {"pass@1": 0.1, "pass@8": 0.4, "pass@64": 0.8, "entropy": 0.2}})
    'pass@64'
    """
    names: list[str] = [name for name in found["before"] if name.startswith("pass@")]
    return max(names, key=lambda name: int(name[5:]))


def at(estimate: Results) -> str:
    """The value without its interval."""
    return as_number(read(estimate)._replace(low=math.nan, high=math.nan), "")


def change(estimate: Results) -> str:
    """With its interval, bold where the interval excludes 0."""
    return as_change(read(estimate))


def read(estimate: Results) -> Estimate:
    """The bench's estimate, where JSON has null for NaN."""
    return Estimate._make(math.nan if estimate[name] is None else estimate[name] for name in Estimate._fields)


def pair(recipe: str, found: Results) -> tuple[float, int]:
    """Learning rate, and updates of the optimizer in a step: each epoch has as many as there are minibatches.

    >>> pair("dars-hw-breadth", {"learn": {"dars-hw-breadth": {"lr": 0.0002, "minibatches": 4, "epochs": 2}}})
    (0.0002, 8)
    """
    learn = found["learn"][recipe]
    return learn["lr"], learn["minibatches"] * learn["epochs"]


def written(values: tuple[float, int]) -> tuple[str, str]:
    """A pair in a table.

    >>> written((0.0002, 1)), written((2.4e-4, 8))
    (('2e-4', '1'), ('2.4e-4', '8'))
    """
    digits, exponent = f"{values[0]:.1e}".split("e")
    return f"{float(digits):g}e{int(exponent)}", str(values[1])


def as_grpo(recipe: str, found: Results) -> bool:
    """Whether a recipe had GRPO's learning rate and updates a step."""
    return pair(recipe, found) == pair("grpo", found)


def final_change(recipe: str, found: Results, quantity: str) -> Estimate:
    """From GRPO's, on the final test set; NaN where the recipe was not measured there."""
    measured = found["untouched"]["recipes"] if found["untouched"] else {}
    nothing = Estimate(math.nan, math.nan, math.nan, 0, 0)
    return read(measured[recipe]["minus_base"][quantity]) if recipe in measured else nothing


def final_levels(found: Results, quantity: str) -> tuple[str, str]:
    """Of the base and of GRPO on the final test set; dashes where they were not measured."""
    kept = found["untouched"]
    return (at(kept["before"][quantity]), at(kept["recipes"]["grpo"]["end"][quantity])) if kept else (NONE, NONE)


def seeds_kept(found: Results) -> str:
    """The number of seeds, and the recipes that have fewer.

    >>> seeds_kept({"recipes": {"grpo": {"seeds": [0, 1, 2, 3]}, "vip": {"seeds": [0, 1, 2]}, "cures": {"seeds": [0]}}})
    '4 (vip 3, cures 1)'
    """
    counts = {name: len(recipe["seeds"]) for name, recipe in found["recipes"].items()}
    most = max(counts.values())
    fewer = ", ".join(f"{name} {count}" for name, count in counts.items() if count < most)
    return f"{most} ({fewer})" if fewer else str(most)
