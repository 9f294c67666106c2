"""The map's page of one setting: all that its benches measured, behind the overview (``_map_page.py``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from _map_read import Results, Setting, at, change, largest, pair, read, seeds_kept, written
from _map_rule import candidate, confirmed

from outrider.bench.crossed import Estimate, estimate
from outrider.bench.results import Measured
from outrider.bench.tables import NONE, markdown

SHOWS = 0.02
"""A difference that one would like to see."""
SEEDS = 5
"""Of a whole bench."""


def setting_page(name: str, setting: Setting) -> str:
    """Markdown: the benches of a setting, and at which budget differences show in the comparison."""
    parts = [_OPENING.format(setting=name)]
    if found := setting.comparison:
        parts += ["## Comparison", *_bench(found)]
        parts += [_BUDGETS.format(seeds=len(found["recipes"]["grpo"]["seeds"])), _budgets(found), _noise(found)]
    for confirmation in setting.confirmations:
        parts += [f"## Confirmation of `{candidate(confirmation)}`", *_bench(confirmation), _result(confirmation)]
    return "\n\n".join(parts) + "\n"


_OPENING = (
    "# {setting}\n\nAll measurements of one setting of [the map](../page.md). Changes are from GRPO, paired by seed "
    "and problem; ± is half of the 95 % confidence interval, and a change is bold where the interval excludes 0. "
    "[The screen](screen/page.md#tuning) chose the hyperparameters of the comparison.\n\n"
    "- *updates*: of the optimizer in a step\n"
    "- *on the way*: mean of pass@1 over the tokens of the run\n"
    "- *at equal pass@1*: where both recipes have the same pass@1, so that having trained further does not count\n"
    "- *GRPO's pass@1 after*: tokens until the mean over seeds first has GRPO's final pass@1\n"
    "- *newly solved*, *lost*: share of the problems that none of the base's samples solved and some of the recipe's "
    "do, and the reverse; a second sample of the base (*base again*) has both by chance\n\n"
    "Changes at equal steps are on each bench's page."
)
_FINAL = "The last policies, measured once on the final test set: {count} held-out problems {order}."
_BUDGETS = (
    "How small a difference shows during training, on the problems of the curve. ± is the median over the recipes of "
    "half the 95 % confidence interval of their changes from GRPO, over {seeds} seeds alone, since the problems are "
    f"the same. *Show* counts the changes that are {SHOWS} or more and lie outside their interval:"
)


def _bench(found: Results) -> list[str]:
    """The end of the curve, and the final test set."""
    parts = [_sentence(found), _ends(found)]
    if kept := found["untouched"]:
        shuffled = "task.heldout_order=shuffled" in found["environment"]["command"]
        order = "in shuffled order" if shuffled else "in the order of their draws"
        parts += [_FINAL.format(count=kept["before"]["pass@1"]["problems"], order=order), _final(kept)]
    return parts


def _result(found: Results) -> str:
    if confirmed(found):
        return "**Confirmed**: significantly higher than GRPO in pass@1 or in the largest pass@k, and lower in neither."
    return (
        "**Not confirmed**: not significantly higher than GRPO, or significantly lower in pass@1 or the largest pass@k."
    )


def _sentence(found: Results) -> str:
    """Levels on the problems of the curve, and the seeds that are kept."""
    before, bench, many = found["before"], found["bench"], largest(found)
    points = found["recipes"]["grpo"]["points"]
    after = points[-1]
    told = (
        f"On the problems of the curve the base has pass@1 {at(before['pass@1'])} and {many} {at(before[many])}. GRPO "
        f"ends at {at(after['pass@1'])} and {at(after[many])} after {bench['tokens']:,} tokens"
    )
    if len(points) > 1:
        one, most = (after[name]["value"] - points[-2][name]["value"] for name in ("pass@1", many))
        told += f"; the last 1/{len(points)} of the tokens changed pass@1 by {one:+.3f} and {many} by {most:+.3f}"
    complete = all(len(recipe["seeds"]) >= SEEDS for recipe in found["recipes"].values())
    excluded = "" if complete else f" of {SEEDS}; runs whose evaluations were not kept are excluded"
    return f"{told}. Seeds: {seeds_kept(found)}{excluded}. [The bench]({found['folder']}/page.md)."


def _ends(found: Results) -> str:
    rows, many = [], largest(found)
    for name, recipe in found["recipes"].items():
        end = recipe["points"][-1]
        reached = recipe["reached_pass@1_of_base"]["tokens"]
        changes = [change(recipe["minus_base"][q]) for q in ("pass@1", "pass@8", many)]
        changes += [change(recipe["pass@1_on_the_way_minus_base"])]
        changes += [change(recipe["minus_base_at_equal_pass@1"][many])]
        told = [NONE] * 5 if name == "grpo" else changes
        there = NONE if name == "grpo" else "never" if reached is None else f"{reached / 1e6:.2f} M"
        turned, values = recipe["problems_turned"], [*written(pair(name, found)), f"{end['steps']['value']:.0f}"]
        rows.append([name, *values, at(end["pass@1"]), *told, there, at(turned["solved"]), at(turned["lost"])])
    chance = found["problems_turned_by_chance"]
    if chance is not None:
        again = [NONE] * 3 + [at(found["before_again"]["pass@1"])] + [NONE] * 6
        rows.append(["*base again*", *again, at(chance["solved"]), at(chance["lost"])])
    headings = ["recipe", "lr", "updates", "steps", "pass@1", "change", "pass@8", many, "on the way"]
    headings += [f"{many} at equal pass@1", "GRPO's pass@1 after", "newly solved", "lost"]
    return markdown(headings, rows)


def _final(found: Results) -> str:
    quantities = ("pass@1", "pass@8", largest(found))
    rows = [["*base*", *(at(found["before"][q]) for q in quantities)]]
    for name, recipe in found["recipes"].items():
        grpo = name == "grpo"
        cells = (at(recipe["end"][q]) if grpo else change(recipe["minus_base"][q]) for q in quantities)
        rows.append(["*grpo*" if grpo else name, *cells])
    return markdown(["change from grpo", *quantities], rows)


def _noise(found: Results) -> str:
    """The median interval of a change at the end, which covers the choice of problems too."""
    others = [recipe["minus_base"] for name, recipe in found["recipes"].items() if name != "grpo"]
    told = []
    for quantity in ("pass@1", largest(found)):
        told.append(f"{_usual([read(changes[quantity]) for changes in others])} in {quantity}")
    return f"At the end, with the choice of problems, the median interval is {', '.join(told)}."


def _usual(changes: Sequence[Estimate]) -> str:
    """The median of half the intervals."""
    halves = [(each.high - each.low) / 2 for each in changes if not math.isnan(each.low)]
    return f"±{median(halves):.3f}" if halves else "none"


def _budgets(found: Results) -> str:
    rows, many = [], largest(found)
    for i, point in enumerate(found["recipes"]["grpo"]["points"]):
        row = [f"{point['tokens']['value'] / 1e6:.1f} M"]
        for quantity in ("pass@1", many):
            changes = [_seeds(found, name, i, quantity) for name in found["recipes"] if name != "grpo"]
            shown = sum(abs(each.value) >= SHOWS and each.excludes_zero for each in changes)
            row += [at(point[quantity]), _usual(changes), f"{shown} of {len(changes)}"]
        rows.append(row)
    return markdown(["tokens", "GRPO's pass@1", "±", "show", f"GRPO's {many}", "±", "show"], rows)


def _seeds(found: Results, recipe: str, point: int, quantity: str) -> Estimate:
    """The change from GRPO at an evaluation, with the interval of the seeds that both have."""

    def values(name: str) -> dict[str, float]:
        rows: Sequence[Mapping[str, str]] = [row for row in found["numbers"] if row["recipe"] == name]
        shares = sorted({float(row["share"]) for row in rows})
        return {row["seed"]: float(row[quantity]) for row in rows if float(row["share"]) == shares[point]}

    grpo, there = values("grpo"), values(recipe)
    changes_SP = np.array([[there[seed] - grpo[seed]] for seed in grpo if seed in there])
    return estimate(Measured(changes_SP, np.ones_like(changes_SP)))
