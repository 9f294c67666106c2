"""The README's first picture: in every setting with a recommended recipe, its confirmation beside GRPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from _map_read import Results, Setting, largest
from _map_rule import candidate
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BASE, GRPO, BEST = "#999999", "#000000", "#D55E00"  # distinct for colour-blind readers too
BARS = "#555555"
KS = ("pass@1", "pass@8")  # and the largest


def best_figure(settings: Mapping[str, Setting]) -> Figure:
    """A row for each setting: pass@1 and pass@k over tokens, and pass@k on the final test set.

    The bar at the end of a curve is the 95 % interval of its change from GRPO, paired by seed and problem. The
    interval of its height would be twice as wide, since the choice of problems moves both recipes alike.

    Args:
        settings: those with a recommended recipe.
    """
    made = Figure(figsize=(11, 2.9 * len(settings) + 0.3), dpi=130, layout="constrained")
    axes = made.subplots(len(settings), 3, squeeze=False)
    for row, (setting, measured) in zip(axes, settings.items(), strict=True):
        found = measured.confirmations[-1]
        name = candidate(found)
        for place, quantity in zip(row, ("pass@1", largest(found)), strict=False):
            _curves(place, found, name, quantity)
            place.set_title(f"{setting}: {quantity}", loc="left", fontsize=11)
        _final(row[2], found["untouched"], name, (*KS, largest(found)))
        row[2].set_title(f"{setting}: pass@k on the final test set", loc="left", fontsize=11)
    made.supxlabel("bars: 95 % confidence interval of the change from GRPO", fontsize=9, color=BARS)
    return made


def _curves(place: Axes, found: Results, name: str, quantity: str) -> None:
    for each, colour in (("grpo", GRPO), (name, BEST)):
        points = found["recipes"][each]["points"]
        tokens_M = [0.0, *(point["tokens"]["value"] / 1e6 for point in points)]
        heights = [found["before"][quantity]["value"], *(point[quantity]["value"] for point in points)]
        place.plot(tokens_M, heights, color=colour, marker="o", ms=4, label=each)
    _bar(place, tokens_M[-1], heights[-1], found["recipes"][name]["minus_base"][quantity])
    place.set_xlabel("generated tokens (millions)")
    _tidy(place)


def _final(place: Axes, found: Results, name: str, quantities: Sequence[str]) -> None:
    levels = {
        "before": (found["before"], BASE),
        "grpo": (found["recipes"]["grpo"]["end"], GRPO),
        name: (found["recipes"][name]["end"], BEST),
    }
    for label, (level, colour) in levels.items():
        heights = [level[quantity]["value"] for quantity in quantities]
        place.plot(range(len(quantities)), heights, color=colour, marker="o", ms=4, label=label)
    for at, quantity in enumerate(quantities):
        _bar(place, at, heights[at], found["recipes"][name]["minus_base"][quantity])
    place.set_xticks(range(len(quantities)), [quantity.removeprefix("pass@") for quantity in quantities])
    place.set_xlabel("k")
    _tidy(place)
    place.legend(frameon=False, fontsize=9)


def _bar(place: Axes, x: float, height: float, change: Results) -> None:
    half = (change["high"] - change["low"]) / 2
    place.errorbar([x], [height], yerr=[half], color=BEST, lw=1.5, capsize=3)


def _tidy(place: Axes) -> None:
    place.set_ylim(0, 1.1 * place.get_ylim()[1])  # room for the highest marker
    place.spines[["top", "right"]].set_visible(False)
