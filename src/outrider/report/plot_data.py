"""Data for page/plots.js: the series of a figure, and their colours. Series with the same name have the same colour on
the whole page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from outrider.report.content import Figure

PALETTE = ("blue", "vermilion", "green", "purple", "orange", "sky", "grey")  # colour-blind safe; also in page.css
MEANINGS = {  # fixed colours of common names, as in the curves of a run (screen/curves.py)
    "solved": "green", "mixed": "orange", "unsolved": "grey",
    "correct": "green", "incorrect": "vermilion", "unparseable": "orange", "timeout": "purple", "error": "sky",
    "not correct": "vermilion",
    "before": "grey", "base": "grey", "before training": "grey", "after": "vermilion",
    "first steps": "grey", "first fifth of the steps": "grey", "last steps": "vermilion", "last fifth": "vermilion",
}  # fmt: skip


def slots(figures: Iterable[Figure], first: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return one mapping per figure, from the name of each series to its colour.

    A name keeps its colour across the page, so that a run can be followed from plot to plot. Names in ``first`` get
    their colours before all other names, in order. Within a figure, colours repeat only if there are more series than
    palette colours.

    >>> from outrider.report.content import Series
    >>> plot = lambda *names: Figure("f", "", "line", "", "", [Series(name, [], []) for name in names])
    >>> slots([plot("a", "solved"), plot("b", "a")])
    [{'a': 'blue', 'solved': 'green'}, {'b': 'vermilion', 'a': 'blue'}]
    """
    known = dict(zip(first, PALETTE, strict=False)) | MEANINGS
    results = []
    for figure in figures:
        names = list(dict.fromkeys(series.name for series in figure.series))
        here: dict[str, str] = {}
        for name in sorted(names, key=lambda name: name not in known):  # names with a known colour come first
            taken = set(here.values())
            free = [slot for slot in PALETTE if slot not in taken] or [PALETTE[len(here) % len(PALETTE)]]
            here[name] = known[name] if known.get(name, "") in free else free[0]
            known.setdefault(name, here[name])
        results.append({name: here[name] for name in names})
    return results


def has_data(figure: Figure) -> bool:
    """Whether the figure has a finite number to plot."""
    return any(y is not None and math.isfinite(y) for series in figure.series for y in series.y)


def plot_data(figure: Figure, colours: dict[str, str]) -> dict[str, Any]:
    """Return the data for plots.js.

    Each series has a key ``again``: the number of earlier series of the same colour. plots.js uses this number to
    choose the dash pattern of a line, or the symbol of points.
    """
    series, used = [], list[str]()
    for s in figure.series:
        slot = colours[s.name]
        low, high, hover = s.low or None, s.high or None, s.hover or None
        again = used.count(slot)
        used.append(slot)
        series.append({"name": s.name, "x": s.x, "y": s.y, "low": low, "high": high, "hover": hover}
                      | {"colour": slot, "again": again})  # fmt: skip
    axes = {"x": figure.x, "y": figure.y, "xLog": figure.x_log, "yRange": figure.y_range, "percent": figure.percent}
    return {"title": figure.title, "kind": figure.kind, **axes, "series": series}
