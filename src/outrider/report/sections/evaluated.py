"""An evaluation by itself: how good a policy is on a set of problems, without any training."""

from __future__ import annotations

import numpy as np

from outrider.measure import Interval
from outrider.measure.evaluation import Summary
from outrider.measure.passk import shown_ks
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.kind import is_evaluation
from outrider.report.sections.frontier import curves, defined, known_interval
from outrider.report.sections.groups import by_level, without_success
from outrider.report.sections.seen import cell, in_percent

_TEXT = (
    "How good the policy is on these problems: how often one try succeeds (pass@1), and whether one of k does. "
    "Intervals are 95 % bootstrap over problems: how far a number would move on other problems of the same kind. They "
    "are too short where problems are few, or nearly all agree."
)


def section(run: RunData) -> Section | None:
    """pass@k, greedy, majority and what was lost on the way, by level; pass@k as a curve; problems without a success.

    Of several evaluations, as along a training that left nothing else, the last one. None for a training, and without
    an evaluation.
    """
    if not run.evaluations or not is_evaluation(run):
        return None
    step = max(run.evaluations)
    evaluation = run.evaluations[step]
    curve = defined(evaluation.overall.pass_at)
    figures: list[Figure] = [curves({"all problems": curve})] if max(curve, default=1) > 1 else []
    ks = shown_ks(curve)
    body = [_row(summary, ks) for summary in (*evaluation.levels, evaluation.overall)]
    names = [*(f"pass@{k}" for k in ks), "greedy", "majority"]
    columns = ["level", "problems", *names]
    columns += ["responses", "cut off", "unparseable", "not verified", "tokens per response"]
    note = f"Step {step}. " * (len(run.evaluations) > 1) + "Majority: whether the most frequent answer is right."
    unknown = sum(t.scorable == 0 for t in evaluation.tallies if t.samples)
    note += f" {unknown:,} problems have no response that was verified, and are in no share." * (unknown > 0)
    filled = [i for i in range(len(columns)) if any(row[i] is not None for row in body)]
    units = in_percent(*names, "cut off", "unparseable")
    rows = [[row[i] for i in filled] for row in body]
    table = TableBlock("evaluated", "What it solves", [columns[i] for i in filled], rows, note, units)
    tables = [table, *(t for t in (by_level(run), without_success(run)) if t)]
    return Section("evaluated", "The evaluation", _TEXT, figures, tables)


def _row(summary: Summary, ks: list[int]) -> list[CellValue]:
    none = Interval(np.nan, np.nan, np.nan, 0)
    intervals = [*(summary.pass_at.get(k, none) for k in ks), summary.greedy, summary.majority]
    return [
        summary.level or "(none)",
        summary.problems,
        *map(known_interval, intervals),
        summary.samples or None,
        *map(cell, (summary.truncated, summary.unparseable)),
        (summary.samples - summary.scorable) or None,
        cell(summary.length) if summary.generated_tokens else None,
    ]
