"""The map's page of one setting: all that its benches found, behind the overview (``_map_page.py``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from _map_read import Results, at, change, largest, pair, read, written
from _map_rule import CONTROLS, ahead

from outrider.bench.crossed import Estimate, Measured, estimate
from outrider.bench.tables import NONE, markdown

SHOWS = 0.02
"""A difference that one would like to see."""


def setting_page(setting: str, benches: Mapping[str, Results]) -> str:
    """Markdown: each bench of a setting, and at which budget differences show in the comparison."""
    parts = [_OPENING.format(setting=setting)]
    for title, found in benches.items():
        parts += [f"## {title}", _sentence(found), _ends(found)]
        if found["untouched"] is not None:
            kept = found["untouched"]
            opening = _UNTOUCHED if found["folder"] == found["part"] else _SHUFFLED
            parts += [opening.format(count=kept["before"]["pass@1"]["problems"]), _untouched(kept), _told(found)]
        if found["part"] == "compared":
            parts += [_BUDGETS.format(seeds=found["bench"]["seeds"]), _budgets(found), _noise(found)]
    return "\n\n".join(parts) + "\n"


_OPENING = (
    "# {setting}\n\nWhat stands behind its row of [the map](../page.md). Changes are from GRPO, paired by seed and "
    "problem; ± is half of the 95 % interval, bold where it excludes 0. *updates*: of the optimizer in a step; "
    "*on the way*: pass@1 as its mean over the tokens of the run; *at equal pass@1*: where both have the same pass@1, "
    "so that having gone further along one line does not count; *GRPO's pass@1 after*: tokens until the mean over "
    "seeds first has GRPO's last one; *newly solved* and *lost*: shares of the problems that none of the base's "
    "samples solved and some of the recipe's do, and the reverse, which for a second sample of the base are luck. "
    "Changes at equal steps are on each bench's page."
)
_UNTOUCHED = "The last policies, once, on {count} held-out problems that nothing was measured on before:"
_SHUFFLED = (
    "The last policies, once, on {count} shuffled held-out problems on which this bench measured nothing before. Other "
    "benches had measured on nearly all of those with three numbers, of which no others exist, and on few of the rest "
    "([rule](../../../map.py), step 13):"
)
_LATER = (
    "Ahead of GRPO at both ends here: {who}. A design that came later and is ahead at both is recommended before all "
    "others. One that was run again is judged by that bench alone; later ones can put another in its place."
)
_CONTROL = (
    "Here GRPO has the rate and the updates of the recipe beside it. Whoever is ahead at no end or behind at one is "
    "recommended no more: {who}."
)
_BETTER = (
    "Here both have values that the rule tried as those of a better GRPO; whether it is, the first numbers of both "
    "benches say. Who is ahead at one end and behind at none is recommended with these, and else no more: {who}."
)
_BUDGETS = (
    "How small a difference shows along the way, on the problems of the first table. ± is the median over the recipes "
    "of half the 95 % interval of their changes from GRPO, of {seeds} seeds alone, the problems being the same; behind "
    f"it how many changes are {SHOWS} or more and lie outside their interval:"
)


def _sentence(found: Results) -> str:
    before, bench, many = found["before"], found["bench"], largest(found)
    points = found["recipes"]["grpo"]["points"]
    after = points[-1]
    told = (
        f"The base has pass@1 {at(before['pass@1'])} and {many} {at(before[many])}; GRPO takes them to "
        f"{at(after['pass@1'])} and {at(after[many])} with {bench['tokens']:,} tokens"
    )
    if len(points) > 1:
        last = (after[name]["value"] - points[-2][name]["value"] for name in ("pass@1", many))
        told += ", of which the last 1/{} gave {:+.3f} and {:+.3f}".format(len(points), *last)
    return f"{told}. [The bench]({found['folder']}/page.md), [the screen](screen/page.md#tuning)."


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


def _untouched(found: Results) -> str:
    quantities = ("pass@1", "pass@8", largest(found))
    rows = [["*base*", *(at(found["before"][q]) for q in quantities)]]
    for name, recipe in found["recipes"].items():
        grpo = name == "grpo"
        cells = (at(recipe["end"][q]) if grpo else change(recipe["minus_base"][q]) for q in quantities)
        rows.append(["*grpo*" if grpo else name, *cells])
    return markdown(["change from grpo", *quantities], rows)


def _told(found: Results) -> str:
    """Who is ahead there, by what the rule asks of such a bench."""
    asked = any if found["part"] in ("compared", *CONTROLS) else all
    best = ahead(found, asked)
    who = f"`{best}`" if best else "nobody"
    if found["part"] == "compared":
        return f"Ahead of GRPO at one end and behind at neither, with the largest sum: {who}."
    if found["part"] not in CONTROLS:
        return _LATER.format(who=who)
    [name] = {*found["recipes"]} - {"grpo"}
    if found["part"] == "control":
        return _CONTROL.format(who=f"`{name}` stays" if best else f"not `{name}`")
    return _BETTER.format(who=f"`{name}` is" if best else f"`{name}` is not")


def _noise(found: Results) -> str:
    """How small a change shows at the end, with the choice of problems, by the median of the recipes' intervals."""
    others = [recipe["minus_base"] for name, recipe in found["recipes"].items() if name != "grpo"]
    told = []
    for quantity in ("pass@1", largest(found)):
        told.append(f"{_usual([read(changes[quantity]) for changes in others])} in {quantity}")
    return f"With the choice of problems the usual interval at the end is {', '.join(told)}."


def _usual(changes: Sequence[Estimate]) -> str:
    """The median of half their intervals."""
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
