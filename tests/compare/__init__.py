"""Outrider's estimators and losses beside those of verl and TRL, on random ragged batches in float64.

``PYTHONPATH=tests python -m compare docs/comparison.md`` writes the table; ``test_comparison.py`` holds every line to
1e-6. Needs verl and TRL, see ``docs/use-outside.md``. A line whose numbers differ says why, and is then compared once
more with that reason taken into account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TOLERANCE = 1e-6
WIDTH = 12


class Comparison(NamedTuple):
    """One line. ``compare`` gives the largest difference as it is, and with the reason in ``why`` accounted for."""

    theirs: str
    ours: str
    compare: Callable[[], tuple[float, float]]
    why: str = ""


def largest(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())
