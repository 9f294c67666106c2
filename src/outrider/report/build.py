"""A report of runs: facts, findings, and every section that has an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import outrider
from outrider.errors import UserError
from outrider.report.content import Cell, Finding, Report, Section
from outrider.report.data import RunData
from outrider.report.findings import examine
from outrider.report.run import gather
from outrider.report.sections import (
    budget,
    credit,
    diversity,
    entropy,
    examples,
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
    diversity.section,
    lengths.section,
    credit.section,
    verdicts.section,
    sampler.section,
    examples.section,
)


def build(runs: Sequence[RunData]) -> Report:
    """The report of one run, or of several side by side: then every finding, figure and table names its run.

    Raises:
        UserError: no runs, or two of one name.
    """
    names = [run.name for run in runs]
    if not runs or len(set(names)) < len(names):
        raise UserError(f"a report needs runs of different names, not {', '.join(names) or 'none'}")
    for run in runs:
        gather(run)
    several = len(runs) > 1
    facts: dict[str, Cell] = {}
    findings: list[Finding] = []
    checked: list[str] = []
    skipped: dict[str, str] = {}
    for run in runs:
        label = f"{run.name}: " if several else ""
        facts |= {label + fact: value for fact, value in _facts(run).items()}
        found = examine(run)
        findings += [replace(finding, run=run.name if several else "") for finding in found.findings]
        checked += [label + name for name in found.checked]
        skipped |= {label + name: why for name, why in found.skipped.items()}
    sections = _sections(runs)
    title = f"Report of {' and '.join(names)}"
    facts["Outrider"] = outrider.__version__
    return Report(title, facts, sorted(findings, key=lambda f: f.severity), checked, skipped, sections)


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


def _sections(runs: Sequence[RunData]) -> list[Section]:
    """Sections of one kind under one heading, whichever runs have them."""
    sections = []
    for make in SECTIONS:
        found = [(run, section) for run in runs if (section := make(run)) is not None]
        if not found:
            continue
        parts = [section for _, section in found]
        if len(runs) > 1:
            parts = [_named(section, run.name, number) for number, (run, section) in enumerate(found)]
        sections.append(
            replace(
                parts[0],
                text=" ".join(dict.fromkeys(section.text for section in parts)),
                figures=[figure for section in parts for figure in section.figures],
                tables=[table for section in parts for table in section.tables],
                examples=[example for section in parts for example in section.examples],
            )
        )
    return sections


def _named(section: Section, name: str, number: int) -> Section:
    """The same section with its run's name in every title, and ids of its own."""
    return replace(
        section,
        figures=[replace(f, id=f"{f.id}-{number}", title=f"{name}: {f.title}") for f in section.figures],
        tables=[replace(t, id=f"{t.id}-{number}", title=f"{name}: {t.title}") for t in section.tables],
        examples=[replace(e, title=f"{name}: {e.title}") for e in section.examples],
    )
