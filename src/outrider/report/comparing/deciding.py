"""The section on where two runs' results differ: number of problems with different results, differences by test set and
difficulty level, and a list of problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.paired import PairedRuns
from outrider.report.content import CellValue, RolloutsOf, Section, TableBlock, Unit
from outrider.report.sections.frontier import known_interval
from outrider.report.sections.seen import cell, in_percent

_SHOWN = 20  # maximum number of problems in a table
_TEXT = (
    "A run wins a problem if its pass rate is higher than that of the first run, `{first}`, and loses the problem if "
    "its pass rate is lower. A problem is clearly won or lost if the two pass rates differ by Fisher's exact test, at "
    "a false discovery rate of 5 % (Benjamini and Hochberg). With few samples per problem, few problems can be "
    "significant.\n\nDecisive is the smallest number of problems whose removal makes the interval of the difference "
    "include 0. The problems that favour the better run most are removed first (Broderick, Giordano and Meager "
    "2020). A small number means that the difference depends on few problems.\n\nIf the difference is not significant, "
    "needed is the number of similar problems, or of samples of each of these problems, that would detect a "
    "difference of the observed size with a power of 80 %."
)
_WORDS = (
    "Clearly: the difference is significant on that problem alone (Fisher's exact test). Decisive: the smallest "
    "number of problems whose removal makes the interval include 0."
)
_PARTS_NOTE = (
    "Percentage points with 95 % intervals in brackets. The p-values are adjusted by Holm over all rows and columns; "
    "a part differs significantly if p is below 0.05. The intervals are not adjusted."
)


def section(compared: Sequence[ComparedRun], found: Sequence[PairedRuns]) -> Section | None:
    """Return a section that compares each run with the first run, problem by problem; None if no runs could be paired.
    Tables show the numbers of problems won and lost, differences by test set and difficulty level, and the problems
    with the largest differences."""
    if not found:
        return None
    runs = {one.name: one for one in compared}
    tables = [decision_table(found), *(parts_table(one) for one in found if one.parts)]
    tables += [table for one in found if (table := problems_table(one, runs)).rows]
    return Section("deciding", "Problems that decide the difference", _TEXT.format(first=found[0].first), [], tables)


def decision_table(found: Sequence[PairedRuns]) -> TableBlock:
    """Return a table with a row per run. Columns are the difference from the first run, counts of problems (such as
    won, lost and tied), and the problems and samples needed to detect the difference; see
    :class:`outrider.measure.decision.Decision`."""
    names = ["difference", "won", "lost", "tied", "clearly won", "clearly lost", "decisive"]
    needed = ["needed problems", "needed samples"]
    rows: list[list[CellValue]] = []
    for one in found:
        d = one.decision
        counts = [d.won, d.lost, d.tied, d.clearly_won, d.clearly_lost, d.decisive]
        rows.append([one.other, known_interval(d.difference), *counts, d.needed_problems, d.needed_samples])
    columns = ["run", *names, *needed]
    filled = [i for i in range(len(columns)) if i <= len(names) - 1 or any(row[i] is not None for row in rows)]
    note = (
        f"Difference from {found[0].first} in {joined_leading(found)}; 95 % intervals over problems in brackets. "
        f"{_WORDS}"
    )
    units: dict[str, Unit] = {"difference": "points"}
    shown = [[row[i] for i in filled] for row in rows]
    return TableBlock("decision", "Number of deciding problems", [columns[i] for i in filled], shown, note, units)


def joined_leading(found: Sequence[PairedRuns]) -> str:
    """Return the names of the metrics in which the runs are compared, joined by "and"."""
    return " and ".join(dict.fromkeys(one.leading for one in found))


def parts_table(found: PairedRuns, id: str = "parts") -> TableBlock:
    """Return a table with a row per test set and level: the differences and their adjusted p-values."""
    whats = list(found.overall)
    by_part: dict[tuple[str, str], dict[str, list[CellValue]]] = {}
    problems: dict[tuple[str, str], int] = {}
    for part in found.parts:
        key = part.kind, part.name
        by_part.setdefault(key, {})[part.what] = [known_interval(part.change), cell(part.p_value)]
        problems[key] = max(problems.get(key, 0), part.change.problems)
    rows: list[list[CellValue]] = [
        [name, problems[kind, name], *_flat(cells, whats)] for (kind, name), cells in by_part.items()
    ]
    kinds = list(dict.fromkeys(part.kind for part in found.parts))
    columns = [", ".join(kinds), "problems", *(name for what in whats for name in (what, f"p of {what}"))]
    units: dict[str, Unit] = dict.fromkeys(whats, "points")
    title = f"{found.other} minus {found.first}, by {' and '.join(kinds)}"
    return TableBlock(id, title, columns, rows, _PARTS_NOTE, units)


def _flat(cells: Mapping[str, list[CellValue]], whats: Sequence[str]) -> list[CellValue]:
    return [value for what in whats for value in cells.get(what, [None, None])]


def problems_table(found: PairedRuns, runs: Mapping[str, ComparedRun]) -> TableBlock:
    """Return the problems whose pass rates differ most, each linked to its rollouts in the first run."""
    apart = sorted(
        (
            (a.successes / a.scorable - b.successes / b.scorable, b, a)
            for b, a in found.pairs
            if b.scorable and a.scorable
        ),
        key=lambda item: (-abs(item[0]), item[1].problem),
    )
    apart = [item for item in apart if item[0]]
    rows: list[list[CellValue]] = [
        [
            _place(b.problem, runs.get(found.first), found.sampled),
            b.test_set or None,
            b.level or None,
            b.successes / b.scorable,
            a.successes / a.scorable,
            change,
        ]
        for change, b, a in apart[:_SHOWN]
    ]
    columns = ["problem", "test set", "level", found.first, found.other, "difference"]
    filled = [i for i in range(len(columns)) if i not in (1, 2) or any(row[i] is not None for row in rows)]
    units: dict[str, Unit] = {**in_percent(found.first, found.other), "difference": "points"}
    note = f"The {_SHOWN} largest differences, of {len(apart):,} problems that differ." if len(apart) > _SHOWN else ""
    title = f"Problems with the largest differences between {found.other} and {found.first}"
    return TableBlock(
        "problems", title, [columns[i] for i in filled], [[row[i] for i in filled] for row in rows], note, units
    )


def _place(problem: str, one: ComparedRun | None, sampled: bool) -> CellValue:
    """Return a link to a run's rollouts of a problem, or only the problem's id if ``one`` is None."""
    if one is None:
        return problem
    return RolloutsOf(problem, "", one.split if sampled else "greedy", one.step or 0, one.name)
