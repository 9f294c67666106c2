"""The README's first picture: in every setting the recipe that the map recommends there, beside GRPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from _map_read import Results, largest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BASE, GRPO, BEST = "#999999", "#000000", "#D55E00"  # for all eyes
BARS = "#555555"
KS = ("pass@1", "pass@8")  # and the largest


def best_figure(recommended: Mapping[str, tuple[str, Results]]) -> Figure:
    """A row for each setting: pass@1 and pass@k over tokens, and pass@k on the untouched problems.

    The bar at the end of a curve is the 95 % interval of its change from GRPO, paired by seed and problem: that of
    its height would be twice as wide, for which problems they are moves both alike.

    Args:
        recommended: by setting a recipe's name and a bench that has measured the untouched problems.
    """
    made = Figure(figsize=(11, 2.9 * len(recommended)), dpi=130, layout="constrained")
    axes = made.subplots(len(recommended), 3, squeeze=False)
    for row, (setting, (name, found)) in zip(axes, recommended.items(), strict=True):
        for place, quantity in zip(row, ("pass@1", largest(found)), strict=False):
            _curves(place, found, name, quantity)
            place.set_title(f"{setting}: {quantity}", loc="left", fontsize=11)
        _untouched(row[2], found["untouched"], name, (*KS, largest(found)))
    made.supxlabel("bars: 95 % interval of the change from GRPO, paired by seed and problem", fontsize=9, color=BARS)
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


def _untouched(place: Axes, found: Results, name: str, quantities: Sequence[str]) -> None:
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
    place.set_title("pass@k on untouched problems", loc="left", fontsize=11)
    _tidy(place)
    place.legend(frameon=False, fontsize=9)


def _bar(place: Axes, x: float, height: float, change: Results) -> None:
    half = (change["high"] - change["low"]) / 2
    place.errorbar([x], [height], yerr=[half], color=BEST, lw=1.5, capsize=3)


def _tidy(place: Axes) -> None:
    place.set_ylim(bottom=0)
    place.spines[["top", "right"]].set_visible(False)
