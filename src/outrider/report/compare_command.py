"""Compare several runs: ``compare.html``, ``compare.json``, and the differences in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

import outrider
from outrider.errors import UserError
from outrider.report.comparing import answers, branching, differences, frontier, opening, settings, training, unsolved
from outrider.report.comparing.cut_runs import cut_at_equal_tokens
from outrider.report.content import CellValue, Report
from outrider.report.data import RunData
from outrider.report.findings import examine
from outrider.report.opened import open_any
from outrider.report.places import around, report_files
from outrider.report.report_command import COLOURS, print_notices, shown_by, write
from outrider.report.run import gather, is_run

_FEWEST = 2


def compare_command(paths: Sequence[Path], out: Path | None = None, columns: Mapping[str, str] | None = None) -> int:
    """Compare the runs at ``paths`` and return 0 whatever the result.

    ``out`` is a page or a folder (:func:`outrider.report.places.report_files`); by default both files go into the
    folder that holds the first run. They replace those of an earlier comparison.

    Raises:
        UserError: as :func:`compared`, ``out`` is neither a page nor a folder, or the disk refuses.
    """
    files = report_files(out or around(paths[0]), "compare")
    made, sentences, notices = compared(paths, columns)
    console = Console()
    written = write(made, files)
    print_notices(notices)
    _print(made, sentences, console)
    console.print("", *written, sep="\n", soft_wrap=True, markup=False, highlight=False)
    return 0


def compared(paths: Sequence[Path], columns: Mapping[str, str] | None = None) -> tuple[Report, list[str], list[str]]:
    """The page of a comparison of the first run with each other one, a sentence about each of these, and notices.

    Raises:
        UserError: fewer than two runs, or one is given twice or cannot be read.
    """
    if len(paths) < _FEWEST:
        raise UserError("a comparison needs at least two runs; of one run there is `outrider report`")
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("the same run is given twice")
    runs = [open_any(path, None if is_run(path) else columns) for path in paths]
    if len({run.name for run in runs}) < len(runs):
        runs = [replace(run, name=str(path)) for run, path in zip(runs, paths, strict=True)]
    try:
        report, sentences = comparison(runs)
        commands = {run.name: shown_by(path) for run, path in zip(runs, paths, strict=True)}
        return replace(report, commands=commands), sentences, [notice for run in runs for notice in run.notices]
    finally:
        for run in runs:
            run.db.close()


def comparison(runs: Sequence[RunData]) -> tuple[Report, list[str]]:
    """The page of a comparison, and a sentence about each run but the first."""
    for run in runs:
        gather(run)
    policies = branching.section(runs)  # before the runs are cut: analyses are of any step
    budget, compared = cut_at_equal_tokens(runs)
    compared_section, sentences = differences.section(compared)
    made = [
        settings.section(compared, budget),
        compared_section,
        frontier.section(compared),
        *training.sections(compared),
        unsolved.section(compared),
        answers.section(compared),
        policies,
    ]
    results = {one.name: examine(one.run) for one in compared}
    findings = [replace(finding, run=name) for name, of in results.items() for finding in of.findings]
    names = [run.name for run in runs]
    facts: dict[str, CellValue] = {"Outrider": outrider.__version__}
    report = Report(
        title=f"Comparison of {differences.joined(names)}" if len(names) < 4 else f"Comparison of {len(names)} runs",
        facts=settings.facts(compared) | facts,
        findings=sorted(findings, key=lambda finding: finding.severity),
        checked=[f"{name}: {check}" for name, of in results.items() for check in of.checked],
        skipped={f"{name}: {check}": why for name, of in results.items() for check, why in of.skipped.items()},
        sections=[section for section in made if section is not None],
        opening=opening.opening(compared, sentences),
    )
    return report, sentences


def _print(made: Report, sentences: Sequence[str], console: Console) -> None:
    """Print how runs were compared, what differs from the first, and the names of the findings in each."""
    console.print(Text(made.title, "bold"))
    for sentence in (*made.sections[0].text.split("\n\n"), *sentences):
        console.print(Text("\n" + sentence.replace("`", "")))
    by_run: dict[str, list[tuple[str, str]]] = {}
    for finding in made.findings:
        by_run.setdefault(finding.run, []).append((f"{finding.severity}: {finding.name}", COLOURS[finding.severity]))
    for name, item in by_run.items():
        parts = [part for one in item for part in (one, ", ")][:-1]
        console.print(Text.assemble((f"\nfindings in {name}: ", "bold"), *parts))
