"""Divides problems into classes by their pass rate before training, to show which problems a recipe helps."""

from __future__ import annotations

import numpy as np

from outrider.arrays import Flags
from outrider.bench.results import Measured, Point

CLASSES = ("never", "seldom", "often", "mostly")
"""Classes of problems, by the share of samples before training that solve the problem.

``never``: no sample; ``seldom``: up to one eighth of the samples; ``often``: up to one half; ``mostly``: more than one
half.
"""
_UP_TO = (0.0, 1 / 8, 1 / 2)


def by_rate(before: Point) -> dict[str, Flags]:
    """Return, for each class in :data:`CLASSES`, a mask of the problems in the class.

    A problem is in no class if the verifier failed on all its samples. Do not estimate the pass rate of a class from
    the samples that define the class. For example, the true pass rate of a problem whose samples all failed is rarely
    0. Estimates from separate samples are unbiased.
    """
    tallies = before.evaluations[0].tallies
    known_P = np.array([tally.scorable > 0 for tally in tallies], np.bool_)
    rates_P = np.array([tally.successes / max(tally.scorable, 1) for tally in tallies])
    place_P = np.searchsorted(_UP_TO, rates_P)
    return {name: known_P & (place_P == i) for i, name in enumerate(CLASSES)}


def of_problems(measured: Measured, chosen_P: Flags) -> Measured:
    """Restrict measurements to the chosen problems."""
    return Measured(measured.totals_SP[:, chosen_P], measured.counts_SP[:, chosen_P])
