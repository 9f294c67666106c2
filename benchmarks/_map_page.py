"""The map's page: which method when, from the results of its benches. What stands behind it: ``_map_setting.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from _map_claims import claims
from _map_figure import FEWEST
from _map_read import (
    Results,
    as_grpo,
    at,
    change,
    class_changes,
    largest,
    pair,
    untouched_change,
    untouched_levels,
    written,
)
from _map_rule import CONTROLS, at_equal_values, judges, recommendations

from outrider.bench.rates import CLASSES
from outrider.bench.tables import NONE, as_change, markdown

Judges = Mapping[str, Mapping[str, Sequence[Results]]]
NAMED = 3
"""So many recipes are named in a cell of the first table."""


def page(results: Mapping[str, Results]) -> str:
    """Markdown: whom to take in each setting, every recipe's changes at both ends, and by the base's pass rate."""
    compared = {found["setting"]: found for found in results.values() if found["part"] == "compared"}
    by_recipe = {setting: judged for setting, judged in judges(results).items() if setting in compared}
    parts = [_OPENING, _SCOPE, _short(compared, by_recipe, results), _SHORT, _commands(results)]
    parts += ["![what each recipe changes, and of which problems](map.png)", _PICTURE]
    parts += ["## On untouched problems", _UNTOUCHED, _untouched(compared, by_recipe)]
    if controls := [found for found in results.values() if found["part"] in CONTROLS]:
        parts += [_CONTROL, _control(controls, compared)]
    parts += [_COST, _cost(compared, [*results.values()])]
    parts += ["## Which method for which problems", _CLASSES]
    parts += [_classes(setting, found, by_recipe[setting]) for setting, found in compared.items()]
    parts += ["## What the papers report", _CLAIMS, claims(compared), _MISSING]
    behind = (f"[{setting}]({setting}/page.md)" for setting in compared)
    parts += ["## Behind it", f"Every bench, its noise, and at which budget differences show: {', '.join(behind)}."]
    return "\n\n".join(parts) + "\n"


_OPENING = (
    "# Which method when\n\nIn each setting the recipes that the [rule](../../map.py) names were screened with "
    "learning rates and with one or four minibatches a step, mostly by one run each. A recipe has the first pair that "
    "is within a standard error of its best, GRPO like the others; designs of ours that came later, on frontier and "
    "sparse, have one pair each, that of the look at them. Those that the rule takes on have five seeds. All numbers "
    "are changes from GRPO at equal generated tokens; ± is half of the 95 % interval, bold where it excludes 0. These "
    "are single comparisons: of twenty true zeros one is bold. Made by `python benchmarks/map.py draw` from the "
    "benches beside it."
)
_SCOPE = (
    "**Scope.** All of it is models of 0.4 to 1.5 million parameters that were trained here, on generated problems. "
    "Nothing is corrected for the number of comparisons. Equal tokens are not equal time: recipes that replay or "
    "rebalance take more seconds and train on more tokens, as the last table below says."
)
_SHORT = (
    "All by intervals, on problems on which the bench of the row had measured nothing before; of which problems "
    "others had, the [rule](../../map.py) says (steps 4, 11 and 13). *Ahead*: whoever is ahead of GRPO at "
    f"that end, the {NAMED} farthest. *Recommended*: its changes at both ends, beside GRPO at the same learning rate "
    "and updates a step where it was run so. A star marks recipes whose rate or updates are not GRPO's, which alone "
    "may be why they are ahead with one try. What the names stand for: [recipes](../../../docs/recipes.md), and "
    "[those that are not shipped](../../studies/recipes); `choose-…` are ours. Those that came after a comparison "
    "were looked at on other problems first, and then compared as the rule says. The recommended, as they were "
    "compared:"
)
_PICTURE = (
    "Changes from GRPO with 95 % intervals. Left: on the untouched problems, up and to the right is better on both "
    "ends. Right: on the others, by how often the base solved them. Hollow: with a star above."
)
_UNTOUCHED = (
    "The last policies, measured once. A recipe of the comparison has its change there; one that came later that of "
    "its own bench, beside other runs of GRPO on other problems, and where several fresh benches have it, their mean, "
    "weighed by the inverse squares of the intervals (which the rule does not ask for: it goes by single benches). A "
    "star as above."
)
_CONTROL = (
    "**Is it the learning rate?** A recipe that the map recommends may have another rate and other updates than "
    "GRPO, and GRPO may be better with others than the screen found. Here both have the values that are named, in "
    "seeds and on problems that nobody had looked at. Behind the changes stands what GRPO comes to with these "
    "values, and in brackets as the screen tuned it where that was on the same problems. A recipe that is ahead at no "
    "end or behind at one is recommended no more. Where GRPO is better with one try than it was as tuned, recipes with "
    "the same values in the table above may owe their lead to them:"
)
_COST = (
    "**What equal tokens cost.** Seconds of training as a multiple of GRPO's in the same bench (wall time on one core, "
    "means over seeds; benches that shared their machine are off by up to a third); tokens with a gradient per "
    "generated token, where the bench counted them; and the largest pass@k at the end beside that at *equal pass@1*: "
    "a recipe that has gone less far along GRPO's own line has more at the end for that alone. `prefix-replay` replays "
    "old responses under a clipped token ratio, which leaves its gradient biased (in an audit's example its cosine "
    "to the true gradient is 0.52)."
)
_CLASSES = (
    "Change of pass@1 from GRPO's at the end, on the problems that none of the base's samples solved (never; as many "
    "as the largest k), up to an eighth (seldom), up to a half (often), or more (mostly); in brackets the number of "
    f"problems, a dash where they are fewer than {FEWEST}. Of several benches that with the most seeds."
)
_CLAIMS = (
    "The headlines of DARS (depth-breadth synergy), [XRPO](https://arxiv.org/abs/2510.06672) and "
    "[DEEP-GRPO](https://arxiv.org/abs/2602.14169) as changes from their baselines, and the changes from GRPO here, "
    "on the untouched problems but for what is told of steps, which is of the curve; *times* have no interval. The "
    "papers compare at equal steps or the best checkpoint, this page at equal tokens where it does not say "
    "otherwise, with learning rate and updates a step tuned for each."
)
_MISSING = (
    "Where a claim does not show, what is missing, as far as it was looked into. DARS's gain with one try is there at "
    "equal steps where most problems are not solved, of which each takes three to four times GRPO's tokens and four "
    "updates where GRPO has one. XRPO gets ahead by examples in the prompt, which no base here gains by "
    "([examples](../../studies/README.md)), and its planner takes rollouts from the hardest problems. Half of "
    "DEEP-GRPO's rollouts, a quarter to a third of its tokens, are branches; for as many tokens they newly solve a "
    "tenth to four tenths of what its plain rollouts do. Two claims more have studies of their own: of the 25 to 60 % "
    "fewer rollouts than naive depth that DARS reports 25 (HW) and 37 (ET) show, 19 and 31 in tokens (*rollouts per "
    "problem*); that rejection fine-tuning keeps more pass@k than RL does not show (*rejection fine-tuning*)."
)


def _short(compared: Mapping[str, Results], by_recipe: Judges, results: Mapping[str, Results]) -> str:
    told, rows = at_equal_values(recommendations(results), results), []
    for setting, found in compared.items():
        many = largest(found)
        levels = [" → ".join(untouched_levels(found, quantity)) for quantity in ("pass@1", many)]
        best, beside = told.get(setting, ("", found))
        ends = [_ahead(by_recipe[setting], quantity) for quantity in ("pass@1", many)]
        rows.append([setting, *levels, _recommended(best, beside, many), *ends])
    headings = ["setting", "base → GRPO: pass@1", "the largest k", "recommended", "ahead with one try", "with many"]
    return markdown(headings, rows)


def _recommended(best: str, beside: Results, many: str) -> str:
    if not best:
        return "nobody"
    ends = (f"{untouched_change(best, [beside], quantity).value:+.3f}" for quantity in ("pass@1", many))
    return f"`{best}` {', '.join(ends)}{_star(best, [beside])}"


def _ahead(recipes: Mapping[str, Sequence[Results]], quantity: str) -> str:
    changes = {name: untouched_change(name, benches, quantity) for name, benches in recipes.items()}
    best = sorted((name for name, each in changes.items() if each.low > 0), key=lambda name: -changes[name].value)
    told = (f"`{name}` {changes[name].value:+.3f}{_star(name, recipes[name])}" for name in best[:NAMED])
    return ", ".join(told) or "nobody"


def _star(recipe: str, benches: Sequence[Results]) -> str:
    return "" if as_grpo(recipe, benches) else r"\*"


def _commands(results: Mapping[str, Results]) -> str:
    """What trains each that is recommended as it was compared."""
    told = [_command(best, found) for best, found in recommendations(results).values()]
    return "\n".join(["```", *told, "```"]) if told else ""


def _command(recipe: str, found: Results) -> str:
    tuned = [f"{key}={value}" for key, value in found["tuned"][recipe]["chosen"].items()]
    # the order of held-out problems is no part of the training
    overrides = [word for word in found["environment"]["command"] if "=" in word and "heldout_order" not in word]
    values = [*overrides, *tuned, f"train.tokens={found['bench']['tokens']}"]
    return " ".join(["outrider train", recipe, "--setting", found["setting"], *values])


def _untouched(compared: Mapping[str, Results], by_recipe: Judges) -> str:
    ends = {setting: ("pass@1", largest(found)) for setting, found in compared.items()}
    names = dict.fromkeys(name for recipes in by_recipe.values() for name in recipes)
    headings = ["recipe", *(f"{setting}: {q}" for setting, both in ends.items() for q in both)]
    levels = [untouched_levels(compared[setting], q) for setting, both in ends.items() for q in both]
    rows = [["*base*", *(base for base, _ in levels)], ["*grpo*", *(grpo for _, grpo in levels)]]
    for name in names:
        row = [name]
        for setting, both in ends.items():
            benches = by_recipe[setting].get(name)
            cells = [as_change(untouched_change(name, benches, q)) + _star(name, benches) for q in both if benches]
            row += cells or [NONE] * len(both)
        rows.append(row)
    return markdown(headings, rows)


def _control(controls: Sequence[Results], compared: Mapping[str, Results]) -> str:
    rows = []
    for found in controls:
        setting = found["setting"]
        [name] = {*found["recipes"]} - {"grpo"}
        values = ", ".join(written(pair(name, found)))
        changes = [as_change(untouched_change(name, [found], q)) for q in ("pass@1", "pass@8", largest(found))]
        now, before = (each["recipes"]["grpo"]["points"][-1] for each in (found, compared[setting]))
        alike = ordered(found) == ordered(compared[setting])
        levels = [at(now[q]) + (f" ({at(before[q])})" if alike else "") for q in ("pass@1", largest(found))]
        rows.append([f"{setting}: {name}", values, *changes, *levels])
    headings = ["recipe", "lr, updates", "pass@1", "pass@8", "the largest k"]
    headings += ["GRPO with these values: pass@1", "the largest k"]
    return markdown(headings, rows)


def _cost(compared: Mapping[str, Results], results: Sequence[Results]) -> str:
    """Of every recipe in the comparison of each setting, and in the controls."""
    rows = []
    for found in results:
        if found["part"] != "compared" and found["part"] not in CONTROLS:
            continue
        many, grpo = largest(found), found["recipes"]["grpo"]
        for name, recipe in found["recipes"].items():
            if name == "grpo":
                continue
            seconds = (each["points"][-1]["seconds"]["value"] for each in (recipe, grpo))
            times = f"{divided(*seconds):.2f}"
            spent = [(each["spent"] or {}).get("gradient") for each in (recipe, grpo)]
            trained = NONE if None in spent else f"{spent[0]:.2f} ({spent[1]:.2f})"
            changes = [change(recipe["minus_base"][many]), change(recipe["minus_base_at_equal_pass@1"][many])]
            values = ", ".join(written(pair(name, found)))
            rows.append([f"{found['setting']}: {name}", values, times, trained, *changes])
    headings = ["recipe", "lr, updates", "seconds, of GRPO's", "with a gradient (GRPO)"]
    return markdown([*headings, "the largest k at the end", "at equal pass@1"], rows)


def ordered(found: Results) -> str:
    """The order of the held-out problems: two benches measure on the same first ones where it is the same."""
    asked = [word for word in found["environment"]["command"] if "heldout_order=" in word]
    return asked[0].partition("=")[2] if asked else "drawn"


def divided(above: float, below: float) -> float:
    """A ratio; NaN where it has none."""
    return above / below if below else math.nan


def _classes(setting: str, compared: Results, recipes: Mapping[str, Sequence[Results]]) -> str:
    first, grpo = compared["by_rate_before"], compared["recipes"]["grpo"]["by_rate_before"]
    shown = [name for name in CLASSES if first[name]["problems"] >= FEWEST]

    def row(name: str, cells: Mapping[str, str]) -> list[str]:
        return [name, *(cells.get(each, NONE) for each in CLASSES)]

    headings = [setting, *(f"{name} ({first[name]['problems']})" for name in CLASSES)]
    rows = [row("*base*", {name: at(first[name]) for name in shown})]
    rows += [row("*grpo*", {name: at(grpo[name]) for name in shown})]
    for recipe, benches in recipes.items():
        changes = class_changes(recipe, benches)
        rows.append(row(recipe, {name: change(changes[name]) for name in shown}))
    return markdown(headings, rows)
