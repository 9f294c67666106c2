"""Formats numbers with the half-widths of their confidence intervals, and Markdown tables of these numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.bench.crossed import Estimate
from outrider.measure import Interval

NONE = "—"


def as_number(result: Estimate | Interval, quantity: str) -> str:
    """Format a value with the half-width of its interval."""
    digits = ",.0f" if quantity in ("tokens", "steps", "seconds") else ".3f"
    return NONE if math.isnan(result.value) else f"{result.value:{digits}}{_half(result, digits)}"


def as_change(result: Estimate | Interval, sure: bool = True) -> str:
    """Format a change with its sign and the half-width of its interval, in bold if the interval is reliable (``sure``)
    and excludes 0."""
    value = f"**{result.value:+.3f}**" if result.excludes_zero and sure else f"{result.value:+.3f}"
    return NONE if math.isnan(result.value) else f"{value}{_half(result, '.3f')}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table with text in the first column and numbers in all others."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _half(result: Estimate | Interval, digits: str) -> str:
    half = (result.high - result.low) / 2
    return "" if math.isnan(half) else f" ±{half:{digits}}".replace("±0.", "±.")
