"""A report of a run: facts, findings, and every section that has an answer."""

from __future__ import annotations

from collections.abc import Callable

import outrider
from outrider.report.content import Cell, Report, Section
from outrider.report.data import RunData
from outrider.report.findings import examine
from outrider.report.run import gather
from outrider.report.sections import (
    analysis_intervene,
    analysis_shift,
    analysis_tokens,
    budget,
    credit,
    diversity,
    entropy,
    examples,
    faults,
    frontier,
    groups,
    lengths,
    sampler,
    verdicts,
)
from outrider.report.sections.seen import one

# in reading order
SECTIONS: tuple[Callable[[RunData], Section | None], ...] = (
    frontier.section,
    budget.section,
    groups.section,
    entropy.section,
    analysis_tokens.section,
    diversity.section,
    lengths.section,
    faults.section,
    credit.section,
    analysis_shift.section,
    analysis_intervene.section,
    verdicts.section,
    sampler.section,
    examples.section,
)


def build(run: RunData) -> Report:
    """The report of one run."""
    gather(run)
    found = examine(run)
    facts = _facts(run) | {"Outrider": outrider.__version__}
    sections = [section for make in SECTIONS if (section := make(run)) is not None]
    return Report(f"Report of {run.name}", facts, found.findings, found.checked, found.skipped, sections)


def _facts(run: RunData) -> dict[str, Cell]:
    total = one(
        run.ask(
            "SELECT count(DISTINCT step) FILTER (split = 'train') AS steps, count(*) AS rollouts, "
            "count(DISTINCT problem_id) AS problems, sum(tokens)::DOUBLE AS tokens FROM rollouts"
        )
    )
    facts: dict[str, Cell] = {}
    facts |= {key: str(run.config[key]) for key in ("name", "model", "seed") if key in run.config}
    facts |= {"steps": total["steps"], "rollouts": total["rollouts"], "problems": total["problems"]}
    if total["tokens"] == total["tokens"] and total["tokens"] is not None:
        facts["tokens"] = int(total["tokens"])
    if run.notices:
        facts["not read"] = "; ".join(run.notices)
    return {"recipe" if key == "name" else key: value for key, value in facts.items()}
