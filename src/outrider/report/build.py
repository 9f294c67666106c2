"""Builds the report of a run. The report begins with facts such as the recipe. Then come findings (problems that checks
detected) and sections of figures and tables. A section without data is omitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import outrider
from outrider.report.content import CellValue, Figure, Report, Section, Series
from outrider.report.data import RunData
from outrider.report.findings import examine
from outrider.report.kind import is_evaluation, with_evaluations
from outrider.report.opening import opening
from outrider.report.run import gather
from outrider.report.sections import (
    analysis_intervene,
    analysis_shift,
    analysis_tokens,
    budget,
    calibration,
    credit,
    diversity,
    entropy,
    evaluated,
    examples,
    faults,
    frontier,
    groups,
    lengths,
    sampler,
    turns,
    verdicts,
)
from outrider.report.sections.seen import rows

# sections in reading order
SECTIONS: tuple[Callable[[RunData], Section | None], ...] = (
    evaluated.section,
    frontier.section,
    budget.section,
    groups.section,
    entropy.section,
    analysis_tokens.section,
    diversity.section,
    lengths.section,
    turns.section,
    faults.section,
    credit.section,
    calibration.section,
    analysis_shift.section,
    analysis_intervene.section,
    verdicts.section,
    sampler.section,
    examples.section,
)


OF_A_TRAINING = (budget.section, groups.section, credit.section, calibration.section, sampler.section)
"""Sections about training. The report of an evaluation without training excludes these sections."""


def build(run: RunData) -> Report:
    """Build the report of one training run, or of an evaluation without training."""
    run = with_evaluations(gather(run))
    evaluation = is_evaluation(run)
    result = examine(run)
    facts = _facts(run) | {"Outrider": outrider.__version__}
    making = [make for make in SECTIONS if not (evaluation and make in OF_A_TRAINING)]
    sections = [section for make in making if (section := make(run)) is not None]
    if evaluation and len(run.query("SELECT DISTINCT step FROM rollouts")["step"]) == 1:
        sections = [replace(one, figures=[_at_one_step(figure) for figure in one.figures]) for one in sections]
    title = f"Evaluation of {run.name}" if evaluation else f"Report of {run.name}"
    return Report(title, facts, result.findings, result.checked, result.skipped, sections, opening(run, result))


def _at_one_step(figure: Figure) -> Figure:
    """Return a figure as a bar chart if it has only one step, otherwise unchanged."""
    if figure.x != "step" or any(len(series.x) != 1 for series in figure.series):
        return figure
    names, values = [series.name for series in figure.series], [series.y[0] for series in figure.series]
    low, high = [s.low[0] for s in figure.series if s.low], [s.high[0] for s in figure.series if s.high]
    bars = Series(figure.y, names, values, *((low, high) if len(low) == len(names) else ()))
    return replace(figure, title=figure.title.removesuffix(" along training"), kind="bars", x="", series=[bars])


def _facts(run: RunData) -> dict[str, CellValue]:
    """Return the facts to show under the report's title.

    Rollouts and tokens are counted separately for training and evaluation, since evaluations often draw more samples.
    """
    facts: dict[str, CellValue] = {}
    facts |= {key: str(run.config[key]) for key in ("name", "model", "seed") if key in run.config}
    drawn = run.query(
        "SELECT split = 'train' AS trains, count(DISTINCT step) AS steps, count(*) AS rollouts, "
        "count(DISTINCT problem_id) AS problems, sum(tokens)::DOUBLE AS tokens FROM rollouts "
        "GROUP BY ALL ORDER BY ALL DESC"
    )
    for trains, steps, rollouts, problems, tokens in rows(drawn):
        purpose = "" if len(drawn["trains"]) == 1 else "training " if trains else "evaluation "
        facts |= {f"{purpose}steps": steps} if trains else {}
        facts |= {f"{purpose}rollouts": rollouts}
        asked = {tally.problem for one in run.models.values() for tally in one.tallies}
        facts |= {"models": len(run.models)} if run.models else {}
        facts |= {} if purpose else {"problems": len(asked) or problems}
        facts |= {} if tokens is None else {f"{purpose}tokens": int(tokens)}
    if not len(drawn["trains"]):
        facts["rollouts"] = 0
    if run.notices:  # a run's notices name unreadable files; an importer's notices state how fields were interpreted
        facts["not read" if run.has("files") else "notes"] = " ".join(run.notices)
    return {"recipe" if key == "name" else key: value for key, value in facts.items()}
