"""The map's picture: for each setting what every recipe changes at both ends of pass@k, and of which problems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from _map_read import Results, as_grpo, class_changes, largest, read, untouched_change
from _map_rule import judges
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from outrider.bench.crossed import Estimate
from outrider.bench.rates import CLASSES

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")  # for all eyes
MARKERS = "os^D"
FEWEST = 10
"""Problems of a class that is drawn: intervals of fewer are wider than all that the picture shows."""
Style = tuple[str, str]
Recipes = Mapping[str, Sequence[Results]]


def figure(results: Mapping[str, Results]) -> Figure:
    """A row for each setting: on the left both ends of pass@k on the untouched problems, where they were measured; on
    the right pass@1 on the others by the base's pass rate. Changes from GRPO, as the page has them."""
    settings = {setting: recipes for setting, recipes in judges(results).items() if recipes}
    names = dict.fromkeys(name for recipes in settings.values() for name in recipes)
    styles = {name: (COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS)]) for i, name in enumerate(names)}
    made = Figure(figsize=(11, 4 * len(settings)), dpi=130, layout="constrained")
    rows = made.subplots(len(settings), 2, squeeze=False)
    for (setting, recipes), (left, right) in zip(settings.items(), rows, strict=True):
        left.set_title(loc="left", label=setting)
        _ends(left, recipes, styles)
        _classes(right, recipes, styles)
        for each in (left, right):
            each.axhline(0, color="#cccccc", lw=1, zorder=0)
            each.spines[["top", "right"]].set_visible(False)
        # beside the axes: inside it covers somebody's interval
        right.legend(*left.get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return made


def _ends(axes: Axes, recipes: Recipes, styles: Mapping[str, Style]) -> None:
    for name, benches in recipes.items():
        many = largest(benches[0])
        one, most = (untouched_change(name, benches, quantity) for quantity in ("pass@1", many))
        colour, marker = styles[name]
        bars = {"xerr": _bar(one), "yerr": _bar(most), "color": colour, "label": name}
        axes.errorbar([one.value], [most.value], fmt=marker, lw=1, mfc=_inside(name, benches, colour), **bars)
        axes.set_ylabel(f"change of {many} from GRPO")
    axes.set_xlabel("change of pass@1 from GRPO")
    axes.axvline(0, color="#cccccc", lw=1, zorder=0)


def _classes(axes: Axes, recipes: Recipes, styles: Mapping[str, Style]) -> None:
    changes = {name: class_changes(name, benches) for name, benches in recipes.items()}
    shown = [name for name in CLASSES if any(each[name]["problems"] >= FEWEST for each in changes.values())]
    for number, (recipe, by_class) in enumerate(changes.items()):
        colour, marker = styles[recipe]
        bars = {"ms": 4, "lw": 1, "color": colour, "mfc": _inside(recipe, recipes[recipe], colour)}
        shift = (number - (len(recipes) - 1) / 2) * 0.8 / len(recipes)
        for place, each in enumerate(read(by_class[name]) for name in shown):
            if not math.isnan(each.value):
                height = {} if math.isnan(each.low) else {"yerr": _bar(each)}
                axes.errorbar([place + shift], [each.value], fmt=marker, **bars, **height)
    axes.set_xticks(range(len(shown)), shown)
    axes.set_xlim(-0.5, max(len(shown), 1) - 0.5)
    axes.set_xlabel("solved by the base")
    axes.set_ylabel("change of pass@1 from GRPO")


def _inside(recipe: str, benches: Sequence[Results], colour: str) -> str:
    """Of a marker: hollow where the rate or the updates may be what differs."""
    return colour if as_grpo(recipe, benches) else "white"


def _bar(estimate: Estimate) -> list[list[float]]:
    return [[estimate.value - estimate.low], [estimate.high - estimate.value]]
