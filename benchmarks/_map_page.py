"""The map's page, from the results of its settings: those of the comparison, ``tuned`` by the screen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

from _map_claims import claims
from _map_figure import FEWEST
from _map_read import Results, at, change, largest, read
from _map_rule import ahead, recommendations

from outrider.bench.rates import CLASSES
from outrider.bench.tables import NONE, markdown


def page(results: Mapping[str, Results]) -> str:
    """Markdown: for each setting the recipes beside GRPO, then all of them by the base's pass rate of a problem."""
    parts = [_OPENING, "![what each recipe changes, and of which problems](map.png)", _PICTURE]
    for title, found in results.items():
        parts += [f"## {title}", _sentence(found), _ends(found)]
        if found["untouched"] is not None:
            kept = found["untouched"]
            parts += [_UNTOUCHED.format(count=kept["before"]["pass@1"]["problems"]), _untouched(kept)]
            parts += [_told(found, results)]
        parts += [_STEPS, _steps(found), _noise(found), _budgets(found)]
    parts += ["## Which method for which problems", _CLASSES, *(_classes(*each) for each in results.items())]
    compared = {title: found for title, found in results.items() if found["part"] == "compared"}
    parts += ["## What the papers report", _CLAIMS, claims(compared)]
    return "\n\n".join(parts) + "\n"


_OPENING = (
    "# Which method when\n\nEvery recipe below was screened with learning rates and updates a step of its own; these "
    "are the ones that the [rule](../../map.py) took to five seeds, and designs that came later, each at one rate, at "
    "which it was looked at before. Changes are from GRPO, tuned alike, paired by seed "
    "and problem; ± is half of the 95 % interval, bold where it excludes 0. These are single comparisons: of twenty "
    "true zeros one is bold. Made by `python benchmarks/map.py draw` from the benches beside it."
)
_PICTURE = (
    "Changes from GRPO, each recipe's as in the last bench that has it, with 95 % intervals. Left: on the untouched "
    "problems, up and to the right is better on both ends. Right: on the others, by how often the base solved them."
)
_UNTOUCHED = "The last policies, once, on {count} held-out problems that nothing was measured on before:"
_STEPS = (
    "After as many steps instead as the run of the two that made fewest, whatever they cost, on the problems of the "
    "first table; on straight lines between evaluations, which favour who ends there, and a dash where one ends before "
    "the other was first measured:"
)
_CLAIMS = (
    "The headlines of DARS (depth-breadth synergy), [XRPO](https://arxiv.org/abs/2510.06672) and "
    "[DEEP-GRPO](https://arxiv.org/abs/2602.14169) as changes from their baselines, and the changes from GRPO here, on "
    "the untouched problems but for the steps, which are those of the curve and have no interval. The papers "
    "compare at equal steps or the best checkpoint, this page at equal tokens, with learning rate and updates a step "
    "tuned for each: breadth, which is one update on many problems, may have four here, and on 4 times the problems "
    "instead of 24. That DARS takes 25 to 60 % fewer rollouts than naive depth, and which right responses STILL "
    "keeps, are [studies](../../studies/README.md)."
)
_LATER = (
    "Ahead of GRPO at both ends here: {who}. A design that came later and is ahead at both ends is recommended before "
    "all others. One that was run again is judged by that bench and by later ones, and a recipe of the comparison "
    "there alone."
)
_RULE = (
    "Recommended by the rule: {who}. By chance alone, somebody of eight would be recommended in about every "
    "fourth setting."
)
_CLASSES = (
    "Change of pass@1 from GRPO's at the end, on the problems that none of the base's samples solved (never; as many "
    "as the largest k), up to an eighth (seldom), up to a half (often), or more (mostly); in brackets the number of "
    f"problems. The picture leaves out those of fewer than {FEWEST} problems."
)


def _told(found: Results, results: Mapping[str, Results]) -> str:
    """Whom the rule recommends, or of designs that came later who is ahead at both ends."""
    if found["part"] != "compared":
        best = ahead(found, all)
        return _LATER.format(who=f"`{_command(best, found)}`" if best else "nobody")
    best, there = recommendations(results).get(found["setting"], ("", found))
    return _RULE.format(who=f"`{_command(best, there)}`" if best else "nobody")


def _command(recipe: str, found: Results) -> str:
    """What trains it as it was compared."""
    tuned = [f"{key}={value}" for key, value in found["tuned"][recipe]["chosen"].items()]
    overrides = [word for word in found["environment"]["command"] if "=" in word]
    values = [*overrides, *tuned, f"train.tokens={found['bench']['tokens']}"]
    return " ".join(["outrider train", recipe, "--setting", found["setting"], *values])


def _sentence(found: Results) -> str:
    setting, before, bench = found["setting"], found["before"], found["bench"]
    after = found["recipes"]["grpo"]["points"][-1]
    told = f"[The bench]({setting}/{found['part']}/page.md), [the screen]({setting}/screen/page.md)."
    many = largest(found)
    return (
        f"The base has pass@1 {at(before['pass@1'])} and {many} {at(before[many])}; GRPO takes them to "
        f"{at(after['pass@1'])} and {at(after[many])} with {bench['tokens']:,} tokens. {told}"
    )


def _ends(found: Results) -> str:
    rows, many = [], largest(found)
    for name, recipe in found["recipes"].items():
        end, tuned = recipe["points"][-1], found["tuned"][name]["chosen"]
        reached = recipe["reached_pass@1_of_base"]["tokens"]
        changes = [change(recipe["minus_base"][q]) for q in ("pass@1", "pass@8", many)]
        changes += [change(recipe["pass@1_on_the_way_minus_base"])]
        changes += [change(recipe["minus_base_at_equal_pass@1"][many])]
        told = [NONE] * 5 if name == "grpo" else changes
        there = NONE if name == "grpo" else "never" if reached is None else f"{reached / 1e6:.2f} M"
        turned, rate = recipe["problems_turned"], f"{tuned['learn.lr']:.0e}".replace("e-0", "e-")
        values = [rate, str(tuned["learn.minibatches"]), f"{end['steps']['value']:.0f}"]
        rows.append([name, *values, at(end["pass@1"]), *told, there, at(turned["solved"]), at(turned["lost"])])
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


def _steps(found: Results) -> str:
    quantities, rows = ("pass@1", "pass@8", largest(found)), []
    for name, recipe in found["recipes"].items():
        if name != "grpo":
            there = recipe["minus_base_at_equal_steps"]
            steps = there["pass@1"]["at_steps"]
            place = NONE if steps is None else f"{steps:.0f}"
            rows.append([name, place, *(change(there[q]) for q in quantities)])
    return markdown(["change from grpo", "steps", *quantities], rows)


def _noise(found: Results) -> str:
    """How small a change shows, by the median of the recipes' own intervals."""
    others = [recipe["minus_base"] for name, recipe in found["recipes"].items() if name != "grpo"]
    told = []
    for quantity in ("pass@1", largest(found)):
        estimates = [read(changes[quantity]) for changes in others]
        halves = [(each.high - each.low) / 2 for each in estimates if not math.isnan(each.low)]
        told.append(f"±{median(halves):.3f} in {quantity}" if halves else f"none in {quantity}")
    return (
        f"The usual interval of a change at the end with {found['bench']['seeds']} seeds: {', '.join(told)}. How many "
        "recipes are at 0.02 from GRPO or more along the way, by their values alone:"
    )


def _budgets(found: Results) -> str:
    others = [recipe["points"] for name, recipe in found["recipes"].items() if name != "grpo"]
    rows, many = [], largest(found)
    for i, point in enumerate(found["recipes"]["grpo"]["points"]):
        row = [f"{point['tokens']['value'] / 1e6:.1f} M", at(point["pass@1"]), at(point[many])]
        for q in ("pass@1", many):
            far = sum(abs(points[i][q]["value"] - point[q]["value"]) >= 0.02 for points in others)
            row.append(f"{far} of {len(others)}")
        rows.append(row)
    return markdown(["tokens", "GRPO's pass@1", many, "recipes 0.02 from it", f"in {many}"], rows)


def _classes(setting: str, found: Results) -> str:
    first = found["by_rate_before"]
    grpo = found["recipes"]["grpo"]["by_rate_before"]
    headings = [setting, *(f"{name} ({first[name]['problems']})" for name in CLASSES)]
    rows = [["*base*", *(at(first[name]) for name in CLASSES)], ["*grpo*", *(at(grpo[name]) for name in CLASSES)]]
    for recipe, numbers in found["recipes"].items():
        if recipe != "grpo":
            rows.append([recipe, *(change(numbers["by_rate_before_minus_base"][name]) for name in CLASSES)])
    return markdown(headings, rows)
