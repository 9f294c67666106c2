"""Builds tables of estimates and their confidence intervals. Intervals over few seeds are marked as unreliable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from outrider.bench.crossed import Estimate
from outrider.measure import Interval
from outrider.report.content import CellValue, TableBlock, Unit

FEWEST_SEEDS = 3
"""Minimum number of seeds for an interval to be shown without a mark. If seeds cause most of the variance, 95 %
intervals over two seeds contain the true value in only 87.5 % of simulated benches (docs/bench.md). With one seed, the
interval does not include the variance between seeds."""

_FEW = {
    1: "† One seed: the interval includes the variation between problems, but not between seeds.",
    2: "† Two seeds: where seeds differ most, such an interval has a coverage of 87.5 %, not 95 %.",
}

BlockCell = CellValue | Estimate


def block(
    id: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[BlockCell]],
    note: str = "",
    units: Mapping[str, Unit] | None = None,
) -> TableBlock:
    """Return a table whose cells may be estimates over seeds. Estimates over few seeds get a mark, which a note
    explains.

    An estimate that does not depend on seeds, such as a pass rate before training, needs no mark. Convert such an
    estimate with :func:`apart_from_seeds` first. An estimate without a value becomes an empty cell.

    >>> made = block("t", "T", ["recipe", "pass@1"], [["a", Estimate(0.5, 0.4, 0.6, 2, 9)], ["b", None]])
    >>> made.rows[0][1], made.marked, made.note[:11]
    (Interval(value=0.5, low=0.4, high=0.6, problems=9), [(0, 1)], '† Two seeds')
    """
    plain = [[apart_from_seeds(c) if isinstance(c, Estimate) else c for c in row] for row in rows]
    few = {
        (i, j): cell.seeds
        for i, row in enumerate(rows)
        for j, cell in enumerate(row)
        if isinstance(cell, Estimate) and not math.isnan(cell.value) and cell.seeds < FEWEST_SEEDS
    }
    notes = [note, *(_FEW[seeds] for seeds in sorted(set(few.values())))]
    text = " ".join(filter(None, notes))
    return TableBlock(id, title, list(columns), plain, text, dict(units or {}), sorted(few))


def apart_from_seeds(found: Estimate) -> Interval | None:
    """Return an estimate's value and interval, without the number of seeds; None if the value is unknown."""
    return None if math.isnan(found.value) else Interval(found.value, found.low, found.high, found.problems)
