"""The first screen of a comparison, with differences, pass@k of each run, and reward over generated tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.measure.passk import shown_ks
from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.deciding import decision_table, parts_table
from outrider.report.comparing.overlay import overlay
from outrider.report.comparing.paired import PairedRuns
from outrider.report.content import CellValue, Section, TableBlock
from outrider.report.opening import reward
from outrider.report.sections.frontier import defined, known_interval
from outrider.report.sections.seen import in_percent

MOST_PARTS = 12  # maximum number of rows (test sets and levels) on the first screen


def opening(compared: Sequence[ComparedRun], found: Sequence[PairedRuns], told: Sequence[str]) -> Section:
    """Return a section with sentences on the differences from the first run, with tables, and with a figure of each
    run's reward.

    One table shows pass@k by run. The next counts the problems that a run solves more or less often than the first run.
    If only two runs with few test sets and difficulty levels are compared, a table also shows the differences by test
    set and level.

    Degenerate cases: if no run was evaluated, there is no table. If no training run has token counts, there is no
    figure.
    """
    figures = overlay(compared, lambda run: [reward(run)], "reward", "reward", "Mean reward in training", "reward")
    tables = [_pass_at_k(compared)]
    if found:
        tables.append(replace(decision_table(found), id="opening-decision"))
    parts = parts_table(found[0], "opening-parts") if len(found) == 1 else None
    if parts is not None and len(parts.rows) <= MOST_PARTS:
        tables.append(parts)
    return Section("opening", "What differs", "\n\n".join(told), figures, [table for table in tables if table.rows])


def _pass_at_k(compared: Sequence[ComparedRun]) -> TableBlock:
    curves = {one.name: defined(one.evaluation.overall.pass_at) for one in compared if one.evaluation is not None}
    ks = sorted({k for curve in curves.values() for k in shown_ks(curve)})
    rows: list[list[CellValue]] = [
        [name, *(known_interval(curve[k]) if k in curve else None for k in ks)] for name, curve in curves.items()
    ]
    names = [f"pass@{k}" for k in ks]
    if not ks:  # only greedy decoding
        names = ["greedy"]
        rows = [[one.name, known_interval(one.evaluation.overall.greedy)] for one in compared if one.evaluation]
    note = "Last evaluation within the common token budget; 95 % intervals over problems, each run by itself."
    return TableBlock("opening-pass-at-k", "pass@k of each run", ["run", *names], rows, note, in_percent(*names))
