"""The tables of the map's page: changes from GRPO, costs, and changes by the pass rate of the base."""

from __future__ import annotations

import math
from collections.abc import Mapping

from _map_figure import FEWEST, compared
from _map_read import Results, Setting, as_grpo, at, change, final_change, final_levels, largest, pair, written
from _map_rule import candidate, confirmed

from outrider.bench.rates import CLASSES
from outrider.bench.tables import NONE, as_change, markdown


def star(recipe: str, found: Results) -> str:
    """Marks a recipe whose learning rate or updates a step are not GRPO's."""
    return "" if as_grpo(recipe, found) else r"\*"


def final(comparisons: Mapping[str, Results]) -> str:
    """Changes of every compared recipe on the final test sets, below the levels of the base and of GRPO."""
    ends = {setting: ("pass@1", largest(found)) for setting, found in comparisons.items()}
    levels = [final_levels(comparisons[setting], quantity) for setting, both in ends.items() for quantity in both]
    rows = [["*base*", *(base for base, _ in levels)], ["*grpo*", *(grpo for _, grpo in levels)]]
    for name in dict.fromkeys(recipe for found in comparisons.values() for recipe in compared(found)):
        row = [name]
        for setting, found in comparisons.items():
            there = name in found["recipes"]
            changes = [as_change(final_change(name, found, q)) + star(name, found) for q in ends[setting] if there]
            row += changes or [NONE, NONE]
        rows.append(row)
    return markdown(["recipe", *(f"{setting}: {q}" for setting, both in ends.items() for q in both)], rows)


def confirmations(settings: Mapping[str, Setting]) -> str:
    """A row for every confirmation: hyperparameters, changes on the final test set, and what follows."""
    rows = []
    for setting, measured in settings.items():
        for found in measured.confirmations:
            name, many = candidate(found), largest(found)
            changes = [as_change(final_change(name, found, q)) for q in ("pass@1", "pass@8", many)]
            equal = change(found["recipes"][name]["minus_base_at_equal_pass@1"][many])
            grpo = [final_levels(found, q)[1] for q in ("pass@1", many)]
            values = [", ".join(written(pair(name, found))), str(len(found["recipes"][name]["seeds"]))]
            result = "confirmed" if confirmed(found) else "not confirmed"
            rows.append([f"{setting}: {name}", *values, *changes, equal, *grpo, result])
    headings = ["recipe", "lr, updates", "seeds", "pass@1", "pass@8", "largest pass@k", "at equal pass@1"]
    return markdown([*headings, "GRPO's pass@1", "GRPO's pass@k", "result"], rows)


def cost(settings: Mapping[str, Setting]) -> str:
    """Seconds and tokens with a gradient of every recipe, and pass@k at the end beside that at equal pass@1."""
    rows = []
    for setting, measured in settings.items():
        for found in measured.benches:
            many, grpo = largest(found), found["recipes"]["grpo"]
            for name in compared(found):
                recipe = found["recipes"][name]
                changes = [change(recipe["minus_base"][many]), change(recipe["minus_base_at_equal_pass@1"][many])]
                values = ", ".join(written(pair(name, found)))
                rows.append(
                    [f"{setting}: {name}", values, f"{times(recipe, grpo):.2f}", _trained(recipe, grpo), *changes]
                )
    headings = ["recipe", "lr, updates", "seconds, of GRPO's", "with a gradient (GRPO)"]
    return markdown([*headings, "largest pass@k at the end", "at equal pass@1"], rows)


def times(recipe: Results, grpo: Results) -> float:
    """Seconds of training as a multiple of GRPO's; NaN where GRPO took none."""
    seconds, of_grpo = (float(each["points"][-1]["seconds"]["value"]) for each in (recipe, grpo))
    return seconds / of_grpo if of_grpo else math.nan


def _trained(recipe: Results, grpo: Results) -> str:
    spent = [(each["spent"] or {}).get("gradient") for each in (recipe, grpo)]
    return NONE if None in spent else f"{spent[0]:.2f} ({spent[1]:.2f})"


def classes(setting: str, found: Results) -> str:
    """pass@1 of the base and of GRPO by the base's pass rate, and the changes of every recipe."""
    first, grpo = found["by_rate_before"], found["recipes"]["grpo"]["by_rate_before"]
    shown = [name for name in CLASSES if first[name]["problems"] >= FEWEST]

    def row(name: str, cells: Mapping[str, str]) -> list[str]:
        return [name, *(cells.get(each, NONE) for each in CLASSES)]

    rows = [row("*base*", {name: at(first[name]) for name in shown})]
    rows += [row("*grpo*", {name: at(grpo[name]) for name in shown})]
    for recipe in compared(found):
        changes = found["recipes"][recipe]["by_rate_before_minus_base"]
        rows.append(row(recipe, {name: change(changes[name]) for name in shown}))
    return markdown([setting, *(f"{name} ({first[name]['problems']})" for name in CLASSES)], rows)
