"""How the map's page writes an estimate of a bench, from the JSON that the bench left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from outrider.bench.crossed import Estimate
from outrider.bench.tables import as_change, as_number

Results = Mapping[str, Any]


def largest(found: Results) -> str:
    """The name of pass@k with all samples of an evaluation.

    >>> largest({"before": {"pass@1": 0.1, "pass@8": 0.4, "pass@64": 0.8, "entropy": 0.2}})
    'pass@64'
    """
    names: list[str] = [name for name in found["before"] if name.startswith("pass@")]
    return max(names, key=lambda name: int(name[5:]))


def at(estimate: Results) -> str:
    """The value alone: which of these differ is said by the changes."""
    return as_number(read(estimate)._replace(low=math.nan, high=math.nan), "")


def change(estimate: Results) -> str:
    return as_change(read(estimate))


def read(estimate: Results) -> Estimate:
    """As the bench had it, where JSON has null for NaN."""
    return Estimate._make(math.nan if estimate[name] is None else estimate[name] for name in Estimate._fields)
