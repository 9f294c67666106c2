"""The map's picture: for each setting the changes of every compared recipe in pass@1 and pass@k, and by difficulty."""

from __future__ import annotations

import math
from collections.abc import Mapping

from _map_read import Results, as_grpo, final_change, largest, read
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from outrider.bench.crossed import Estimate
from outrider.bench.rates import CLASSES

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")  # distinct for all
MARKERS = "os^D"
FEWEST = 10
"""Problems of a class that is drawn: intervals of fewer are wider than all that the picture shows."""
Style = tuple[str, str]


def figure(benches: Mapping[str, Results]) -> Figure:
    """A row for each comparison, with changes from GRPO. On the left those of pass@1 and pass@k on the final test set;
    on the right those of pass@1 on the problems of the curve, by the base's pass rate."""
    names = dict.fromkeys(recipe for found in benches.values() for recipe in compared(found))
    styles = {name: (COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS)]) for i, name in enumerate(names)}
    made = Figure(figsize=(11, 4 * len(benches)), dpi=130, layout="constrained")
    rows = made.subplots(len(benches), 2, squeeze=False)
    for (setting, found), (left, right) in zip(benches.items(), rows, strict=True):
        left.set_title(loc="left", label=f"{setting}: final test set")
        right.set_title(loc="left", label=f"{setting}: problems of the curve")
        _ends(left, found, styles)
        _classes(right, found, styles)
        for each in (left, right):
            each.axhline(0, color="#cccccc", lw=1, zorder=0)
            each.spines[["top", "right"]].set_visible(False)
        # beside the axes: inside it covers an interval
        right.legend(*left.get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return made


def compared(found: Results) -> list[str]:
    """The recipes beside GRPO."""
    return [name for name in found["recipes"] if name != "grpo"]


def _ends(axes: Axes, found: Results, styles: Mapping[str, Style]) -> None:
    many = largest(found)
    for name in compared(found):
        one, most = (final_change(name, found, quantity) for quantity in ("pass@1", many))
        colour, marker = styles[name]
        bars = {"xerr": _bar(one), "yerr": _bar(most), "color": colour, "label": name}
        axes.errorbar([one.value], [most.value], fmt=marker, lw=1, mfc=_inside(name, found, colour), **bars)
    axes.set_ylabel(f"change of {many} from GRPO")
    axes.set_xlabel("change of pass@1 from GRPO")
    axes.axvline(0, color="#cccccc", lw=1, zorder=0)


def _classes(axes: Axes, found: Results, styles: Mapping[str, Style]) -> None:
    names = compared(found)
    changes = {name: found["recipes"][name]["by_rate_before_minus_base"] for name in names}
    shown = [name for name in CLASSES if any(each[name]["problems"] >= FEWEST for each in changes.values())]
    for number, (recipe, by_class) in enumerate(changes.items()):
        colour, marker = styles[recipe]
        bars = {"ms": 4, "lw": 1, "color": colour, "mfc": _inside(recipe, found, colour)}
        shift = (number - (len(names) - 1) / 2) * 0.8 / len(names)
        for place, each in enumerate(read(by_class[name]) for name in shown):
            if not math.isnan(each.value):
                height = {} if math.isnan(each.low) else {"yerr": _bar(each)}
                axes.errorbar([place + shift], [each.value], fmt=marker, **bars, **height)
    axes.set_xticks(range(len(shown)), shown)
    axes.set_xlim(-0.5, max(len(shown), 1) - 0.5)
    axes.set_xlabel("solved by the base")
    axes.set_ylabel("change of pass@1 from GRPO")


def _inside(recipe: str, found: Results, colour: str) -> str:
    """The colour inside a marker: hollow where learning rate or updates a step are not GRPO's."""
    return colour if as_grpo(recipe, found) else "white"


def _bar(estimate: Estimate) -> list[list[float]]:
    return [[estimate.value - estimate.low], [estimate.high - estimate.value]]
