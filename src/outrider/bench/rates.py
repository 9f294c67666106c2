"""Which problems a recipe helps: those that were never solved before training, seldom, often or mostly."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Flags
from outrider.bench.results import Measured, Point

CLASSES = ("never", "seldom", "often", "mostly")
"""Of the samples before training none solved it, up to an eighth, up to a half, or more."""
_UP_TO = (0.0, 1 / 8, 1 / 2)


def by_rate(before: Point) -> dict[str, Flags]:
    """For each class the problems whose pass rate before training lies in it; what could not be verified is in none.

    Chance has a part in which class a problem is put into, so that the same samples must not say what its pass rate
    was: where they are all failures it was rarely 0. Later samples, and differences of two of them, are free of that.
    """
    tallies = before.evaluations[0].tallies
    known_P = np.array([tally.scorable > 0 for tally in tallies], np.bool_)
    rates_P = np.array([tally.successes / max(tally.scorable, 1) for tally in tallies])
    place_P = np.searchsorted(_UP_TO, rates_P)
    return {name: known_P & (place_P == i) for i, name in enumerate(CLASSES)}


def of_problems(measured: Measured, chosen_P: Flags) -> Measured:
    """The same on some of the problems."""
    return Measured(measured.totals_SP[:, chosen_P], measured.counts_SP[:, chosen_P])
