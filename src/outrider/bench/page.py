"""Writes a bench's results in Markdown: a table, and a page with the same sections as the bench's HTML page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.bench.blocks import FEWEST_SEEDS
from outrider.bench.content import content
from outrider.bench.report import BenchReport
from outrider.bench.sections import results
from outrider.bench.tables import NONE, as_change, as_number, markdown
from outrider.measure import Interval
from outrider.report.content import CellValue, Section, TableBlock, Unit

_PICTURE = "![pass@1 against pass@k along training, and both over generated tokens](frontier.png)"
_COVERS = (
    f"±: half of the 95 % confidence interval. A change over {FEWEST_SEEDS} or more seeds is bold if its interval "
    "excludes 0."
)


def table(report: BenchReport, only: Sequence[str] | None = None) -> str:
    """Return the final results of all recipes as a table, with the mean over seeds and the half-width of the interval.

    ``only`` selects the metrics to show; None shows all metrics.
    """
    [made] = results(report, only).tables
    return _table(made) + f"\n\n{made.note}" * bool(made.note)


def page(report: BenchReport, environment: Mapping[str, Any]) -> str:
    """Return the whole page: the comparison of the recipes, the results, and the data needed to assess and reproduce
    the results."""
    made = content(report, environment)
    assert made.opening is not None
    facts = "; ".join(
        f"{name}: {fact:,}" if isinstance(fact, int) else f"{name}: {fact}" for name, fact in made.facts.items()
    )
    parts = [f"# {made.title}", made.opening.text, f"{facts[0].upper()}{facts[1:]}.", _COVERS, _PICTURE]
    parts += [_section(section) for section in made.sections if section.id != "along"]  # the figure shows it
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _section(section: Section) -> str:
    parts = [f"## {section.title}", *map(_paragraph, section.text.split("\n\n"))]
    for block in section.tables:
        parts += [f"**{block.title}**"] * (len(section.tables) > 1) + [_table(block)] + [block.note] * bool(block.note)
    return "\n\n".join(parts)


def _paragraph(text: str) -> str:
    """Return the paragraph, converted to a code block if the whole paragraph is a code span."""
    code = re.fullmatch(r"`([^`]+)`", text)
    return f"```\n{code[1]}\n```" if code else text


def _table(block: TableBlock) -> str:
    """Return a table in Markdown. Intervals in percentage points are changes, and are written with + or -. In a table
    with a column in percentage points, intervals without a unit (such as entropy) are changes too, and are written the
    same way."""
    changes = "points" in block.units.values()
    units = {name: block.units.get(name, "points" if changes else None) for name in block.columns}
    rows = [
        [_cell(row[j], name, units[name], (i, j) in block.marked) for j, name in enumerate(block.columns)]
        for i, row in enumerate(block.rows)
    ]
    return markdown(block.columns, rows)


def _cell(cell: CellValue, column: str, unit: Unit | None, marked: bool) -> str:
    if cell is None:
        return NONE
    if isinstance(cell, Interval):
        text = as_change(cell, sure=not marked) if unit == "points" else as_number(cell, column)
        return text + "†" * marked
    if isinstance(cell, str):
        return cell
    assert isinstance(cell, (int, float))
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.0%}" if unit == "percent" else f"{cell:.2f}"
