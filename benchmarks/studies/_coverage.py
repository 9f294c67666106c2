"""Empirical coverage of an interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

Ends = tuple[float, float]


class Case(NamedTuple):
    """One interval on one population.

    Attributes:
        interval: what it is called in the table.
        shown: where a reader meets it.
        population: what the data are drawn from.
        truth: by quantity, what the interval is of.
        draw: new data, and the interval of each quantity.
        trials: how often.
        nominal: what it promises.
    """

    interval: str
    shown: str
    population: str
    truth: Callable[[], dict[str, float]]
    draw: Callable[[Generator], dict[str, Ends]]
    trials: int = 2000
    nominal: float = 0.95


class Row(NamedTuple):
    """What came of a case, for one of its quantities; the shares are of the intervals that there were.

    ``off_by``: how far from the truth those that miss it end, in the median; NaN where none misses.
    """

    interval: str
    shown: str
    population: str
    quantity: str
    nominal: float
    truth: float
    held: float
    below: float
    above: float
    none: float
    width: float
    off_by: float
    trials: int


def held(case: Case, trials: int, rng: Generator) -> list[Row]:
    """A row for each quantity of a case."""
    truths = case.truth()
    drawn = [case.draw(rng) for _ in range(trials)]
    rows = []
    for quantity, truth in truths.items():
        low, high = np.array([found[quantity] for found in drawn]).T
        there = ~(np.isnan(low) | np.isnan(high))
        hair = 1e-9 * max(1.0, abs(truth))  # an end that is the truth but for rounding holds it
        below, above = high[there] < truth - hair, low[there] > truth + hair
        outside = np.maximum(truth - high[there], low[there] - truth)
        n = max(1, int(there.sum()))
        rows.append(
            Row(
                interval=case.interval,
                shown=case.shown,
                population=case.population,
                quantity=quantity,
                nominal=case.nominal,
                truth=truth,
                held=float(1 - (below.sum() + above.sum()) / n) if there.any() else math.nan,
                below=float(below.sum() / n),
                above=float(above.sum() / n),
                none=float(1 - there.mean()),
                width=float((high - low)[there].mean()) if there.any() else math.nan,
                off_by=float(np.median(outside[outside > hair])) if (outside > hair).any() else math.nan,
                trials=trials,
            )
        )
    return rows
