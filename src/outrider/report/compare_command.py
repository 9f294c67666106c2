"""Compares several runs: writes ``compare.html`` and ``compare.json``, and prints the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

import outrider
from outrider.errors import UserError
from outrider.report.comparing import (
    answers,
    branching,
    deciding,
    differences,
    frontier,
    opening,
    settings,
    training,
    unsolved,
)
from outrider.report.comparing.cut_runs import cut_at_equal_tokens
from outrider.report.comparing.paired import PairedRuns, paired_runs
from outrider.report.comparing.sentences import joined, sentences
from outrider.report.content import CellValue, Report
from outrider.report.data import RunData
from outrider.report.findings import examine
from outrider.report.models import by_model
from outrider.report.opened import open_any
from outrider.report.places import around, report_files
from outrider.report.report_command import COLOURS, print_notices, shown_by, write
from outrider.report.run import gather, is_run

_FEWEST = 2


def compare_command(paths: Sequence[Path], out: Path | None = None, columns: Mapping[str, str] | None = None) -> int:
    """Compare the runs at ``paths``, and return 0 regardless of the result.

    Writes an HTML file and a JSON file (:func:`outrider.report.places.report_files`), by default to the first run's
    parent folder. Files of an earlier comparison are overwritten. To write elsewhere, set ``out`` to an HTML file or
    folder.

    Raises:
        UserError: see :func:`compared`; also if ``out`` is neither an HTML file nor a folder, or if a file cannot be
            written.
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
    """Return the report that compares the first run with every other run. Also return one paragraph per compared run,
    and messages for the user.

    A path may contain another framework's rollouts. If they come from several models, each model is treated as a
    separate run, and these runs are sorted by name.

    Raises:
        UserError: there are fewer than two runs, or a run is given twice or cannot be read.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("the same run is given twice")
    opened = [open_any(path, None if is_run(path) else columns) for path in paths]
    notices = [notice for run in opened for notice in run.notices]
    found = [(path, run, one) for path, run in zip(paths, opened, strict=True) for one in by_model(run)]
    try:
        if len(found) < _FEWEST:
            raise UserError("a comparison needs at least two runs; for one run use `outrider report`")
        runs = _named_apart(found)
        report, told = comparison(runs)
        commands = {run.name: shown_by(path) for run, (path, _, _) in zip(runs, found, strict=True)}
        return replace(report, commands=commands), told, notices
    finally:
        for run in [*opened, *(one for _, _, one in found)]:
            run.db.close()


def _named_apart(found: Sequence[tuple[Path, RunData, RunData]]) -> list[RunData]:
    """Return the runs under unique names. The rollout files of several models are already split into one run per model.
    If two names are equal, models are named ``FILES: MODEL``, where ``FILES`` is the name of the model's rollout files.
    If two of these names are equal, models are named ``PATH: MODEL``, and every other run is named by its path."""
    names = [
        [one.name for _, _, one in found],
        [one.name if one is run else f"{run.name}: {one.name}" for _, run, one in found],
        [str(path) if one is run else f"{path}: {one.name}" for path, run, one in found],
    ]
    apart = next((each for each in names if len(set(each)) == len(each)), names[-1])
    return [replace(one, name=name) for name, (_, _, one) in zip(apart, found, strict=True)]


def comparison(runs: Sequence[RunData]) -> tuple[Report, list[str]]:
    """Return the comparison report, and a paragraph about each run except the first."""
    for run in runs:
        gather(run)
    policies = branching.section(runs)  # before the runs are cut, since any step may have been analysed
    budget, compared = cut_at_equal_tokens(runs)
    first, *others = compared
    pairs = {one.name: paired_runs(first, one) for one in others}
    found = [pair for pair in pairs.values() if isinstance(pair, PairedRuns)]
    told = [sentences(pair) if isinstance(pair, PairedRuns) else pair for pair in pairs.values()]
    made = [
        settings.section(compared, budget),
        deciding.section(compared, found),
        differences.section(first, found, told),
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
        title=f"Comparison of {joined(names)}" if len(names) < 4 else f"Comparison of {len(names)} runs",
        facts=settings.facts(compared) | facts,
        findings=sorted(findings, key=lambda finding: finding.severity),
        checked=[f"{name}: {check}" for name, of in results.items() for check in of.checked],
        skipped={f"{name}: {check}": why for name, of in results.items() for check, why in of.skipped.items()},
        sections=[section for section in made if section is not None],
        opening=opening.opening(compared, found, told),
    )
    return report, told


def _print(made: Report, sentences: Sequence[str], console: Console) -> None:
    """Print the differences from the first run, how the runs were compared, and the names of the findings in each
    run."""
    console.print(Text(made.title, "bold"))
    for sentence in (*sentences, *made.sections[0].text.split("\n\n")):
        console.print(Text("\n" + sentence.replace("`", "")))
    by_run: dict[str, list[tuple[str, str]]] = {}
    for finding in made.findings:
        by_run.setdefault(finding.run, []).append((f"{finding.severity}: {finding.name}", COLOURS[finding.severity]))
    for name, item in by_run.items():
        parts = [part for one in item for part in (one, ", ")][:-1]
        console.print(Text.assemble((f"\nfindings in {name}: ", "bold"), *parts))
