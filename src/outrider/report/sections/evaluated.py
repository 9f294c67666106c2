"""The section on an evaluation without training, with a policy's scores on a set of problems."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.measure import Evaluation, Summary
from outrider.report.content import CellValue, Figure, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.kind import is_evaluation
from outrider.report.scores import TAUS, cells_of, names_of, parts_of, reliability
from outrider.report.sections.frontier import curves, defined
from outrider.report.sections.groups import by_level, without_success
from outrider.report.sections.seen import cell, in_percent

_RELIABLE = (
    "G-Pass@k is the probability that at least the given share of k samples is correct (Liu et al. 2024). For a "
    "share of 1/k it is pass@k, for a share of 1 pass^k. mG-Pass@k is its mean over shares from one half to one."
)
_TEXT = (
    "pass@1 is the mean pass rate; pass@k is the probability that at least one of k samples is correct. Intervals "
    "are 95 % bootstrap intervals over problems of the same kind. They are too narrow for few problems, or where "
    "nearly all problems agree."
)


def section(run: RunData) -> Section | None:
    """Return a section with scores and numbers of unverified responses, for each test set, difficulty level and model.
    The section also shows a pass@k curve, G-Pass@k, and the problems that have no success.

    If there are several evaluations, only the last is shown. The result is None for a training run, or if there is no
    evaluation.
    """
    if not run.evaluations or not is_evaluation(run):
        return None
    step = max(run.evaluations)
    evaluation = run.evaluations[step]
    several = run.models or {"": evaluation}
    known = {name or "all problems": defined(one.overall.pass_at) for name, one in several.items()}
    figures: list[Figure] = [curves(known)] if any(max(curve, default=1) > 1 for curve in known.values()) else []
    tables = [_table(several, f"Step {step}. " * (len(run.evaluations) > 1)), _reliability(several)]
    tables += [by_level(run), without_success(run)]
    return Section("evaluated", "The evaluation", _TEXT, figures, [table for table in tables if table])


def _table(several: Mapping[str, Evaluation], note: str) -> TableBlock:
    """Return a table of scores. Each model has one row for all problems, and one for each test set and difficulty
    level."""
    scores = list(dict.fromkeys(name for one in several.values() for name in names_of(one)))
    named = [(name, one, part) for name, one in several.items() for part in parts_of(one)]
    kinds = [part.kind for *_, part in named]
    whole = "test set" if "test set" in kinds else "level"  # the column that labels the rows over all problems
    body: list[list[CellValue]] = []
    for name, one, part in named:
        cells = dict(zip(names_of(one), cells_of(part, one), strict=True))
        labels = [part.name if kind == (part.kind or whole) else None for kind in ("test set", "level")]
        body.append([name, *labels, part.summary.problems, *map(cells.get, scores), *_lost(part.summary)])
    columns = ["model", "test set", "level", "problems", *scores]
    columns += ["responses", "truncated", "unparseable", "not verified", "tokens per response"]
    filled = [i for i in range(len(columns)) if any(row[i] not in (None, "") for row in body)]
    note += "Majority: the most frequent answer is correct."
    unknown = sum(t.scorable == 0 for one in several.values() for t in one.tallies if t.samples)
    note += f" {unknown:,} problems have no verified response and are excluded." * (unknown > 0)
    units = in_percent(*scores, "truncated", "unparseable")
    rows = [[row[i] for i in filled] for row in body]
    return TableBlock("evaluated", "Scores", [columns[i] for i in filled], rows, note, units)


def _lost(summary: Summary) -> list[CellValue]:
    return [
        summary.samples or None,
        *map(cell, (summary.truncated, summary.unparseable)),
        (summary.samples - summary.scorable) or None,
        cell(summary.length) if summary.generated_tokens else None,
    ]


def _reliability(several: Mapping[str, Evaluation]) -> TableBlock | None:
    """Return a table of pass@k, G-Pass@k, pass^k and mG-Pass@k, with one row for each k; None if each problem has one
    sample."""
    body = [[name, k, *cells] for name, one in several.items() for k, cells in reliability(one)]
    if not body:
        return None
    names = ["pass@k", *(f"G-Pass@k, {tau:.0%}" for tau in TAUS), "pass^k (100%)", "mG-Pass@k"]
    columns = ["model", "k", *names]
    first = 0 if any(row[0] for row in body) else 1
    return TableBlock(
        "reliability",
        "Reliability",
        columns[first:],
        [row[first:] for row in body],
        _RELIABLE,
        in_percent(*names),
    )
