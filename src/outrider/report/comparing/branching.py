"""The section on the branching factor of each run's policy: the size of the policy's nucleus (top-p set) of next
tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.measure.groups import means_by_group
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock
from outrider.report.data import RunData
from outrider.report.sections.analysis import Analysed, read_analysis

_PREFIX = "branching_"
_USUAL = "branching_95"
_TEXT = (
    "Branching factor: the size of the smallest set of next tokens that holds {mass} % of the probability, averaged "
    "over all positions. Intervals are 95 % bootstrap intervals over problems. The policies are those analysed by "
    "`outrider analyse tokens`; they are not cut at equal tokens."
)


def section(runs: Sequence[RunData]) -> Section | None:
    """Return a section with the branching factors of all runs on which ``outrider analyse tokens`` was completed; None
    if there is no such run.

    A branching factor is the mean size of a top-p set of next tokens. The section uses p = 0.95 if all these runs were
    analysed with 0.95, otherwise the largest p with which all of them were analysed.
    """
    read = {run.name: read_analysis(run, "tokens", ()) for run in runs}
    whole = {name: result[0] for name, result in read.items() if result and result[0] and not result[1]}
    named = [{column for column in one.rows if column.startswith(_PREFIX)} for one in whole.values()]
    if not (columns := set.intersection(*named) if named else set()):
        return None
    column = _USUAL if _USUAL in columns else max(columns, key=_mass)
    rows = [_row(name, one, column) for name, one in whole.items()]
    bars = [Series(str(row[0]), [str(row[0])], [row[5]], [row[6]], [row[7]]) for row in rows]  # type: ignore[list-item]
    text = _TEXT.format(mass=f"{_mass(column):g}")
    if without := [run.name for run in runs if run.name not in whole]:
        text += f" Not analysed: {', '.join(f'`{name}`' for name in without)}."
    figure = Figure("branching", "Branching factor", "bars", "run", "tokens", bars)
    names = ["run", "policy", "rollouts", "responses", "tokens", "branching factor", "from", "to"]
    return Section(
        "branching", "Branching factor", text, [figure], [TableBlock("branching", "Branching factor", names, rows)]
    )


def _mass(column: str) -> float:
    """Return the percentage at the end of a column's name.

    >>> _mass("branching_95"), _mass("branching_99_9")
    (95.0, 99.9)
    """
    return float(column.removeprefix(_PREFIX).replace("_", "."))


def _row(name: str, one: Analysed, column: str) -> list[CellValue]:
    sizes_T = one.rows[column]
    tokens = means_by_group(sizes_T, np.zeros(len(sizes_T)), one.owners_T, ["all"])
    mean = tokens.over_problems(one.problems_R)["all"]
    about = one.about
    return [
        name,
        about.get("model"),
        about.get("split", "train"),
        len(one.success_R),
        mean.n,
        mean.value,
        mean.low,
        mean.high,
    ]
