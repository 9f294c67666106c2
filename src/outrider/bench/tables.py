"""How a bench writes its estimates: numbers with half of their intervals, changes, and tables in markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.bench.crossed import Estimate
from outrider.measure import Interval

NONE = "—"


def as_number(result: Estimate | Interval, quantity: str) -> str:
    """A value and half of its interval."""
    digits = ",.0f" if quantity in ("tokens", "steps", "seconds") else ".3f"
    return NONE if math.isnan(result.value) else f"{result.value:{digits}}{_half(result, digits)}"


def as_change(result: Estimate | Interval, sure: bool = True) -> str:
    """The same with its sign, bold where the interval excludes 0 and can be trusted to."""
    value = f"**{result.value:+.3f}**" if result.excludes_zero and sure else f"{result.value:+.3f}"
    return NONE if math.isnan(result.value) else f"{value}{_half(result, '.3f')}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _half(result: Estimate | Interval, digits: str) -> str:
    half = (result.high - result.low) / 2
    return "" if math.isnan(half) else f" ±{half:{digits}}".replace("±0.", "±.")
