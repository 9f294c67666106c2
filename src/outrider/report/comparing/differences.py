"""The section on each run's differences from the first run, paired by problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.measure import Change, Comparison, Interval
from outrider.measure.passk import shown_ks
from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.paired import PairedRuns
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock, Unit
from outrider.report.sections.frontier import defined, interval_series, known_interval

_TEXT = (
    "Each run minus the first one, `{first}`, on the held-out problems that both have. Intervals are paired 95 % "
    "bootstrap intervals over problems: they cover the choice of problems, not the seeds of the runs. A difference "
    "can therefore come from the seed and not from the method; `outrider bench` repeats recipes over seeds. Of "
    "twenty intervals without a true difference, one excludes 0 by chance."
)


_UNITS = "Percentage points (entropy: nats), with 95 % intervals in brackets."


def section(first: ComparedRun, found: Sequence[PairedRuns], told: Sequence[str]) -> Section:
    """Return a section with the paired differences from the first run: a paragraph per run, then figures and tables.

    If no runs can be paired, the section only contains a text that explains why.
    """
    results = {one.other: one.comparison for one in found}
    text = "\n\n".join([_TEXT.format(first=first.name), *told] if results else told)
    if not results:
        return Section("differences", "Differences", text)
    return Section("differences", "Differences", text, _figures(results), _tables(first.name, results))


def quantities(change: Change) -> Iterator[tuple[str, Interval]]:
    """Yield the difference in each metric, except where the difference is unknown. The metrics are pass@1, pass@8,
    pass@k for the maximum k, greedy decoding, majority vote and entropy."""
    known = [(f"pass@{k}", change.pass_at[k]) for k in shown_ks(change.pass_at)]
    known += [("greedy", change.greedy), ("majority", change.majority), ("entropy", change.entropy)]
    return ((name, interval) for name, interval in known if interval.value == interval.value)


def _figures(results: dict[str, Comparison]) -> list[Figure]:
    lines = [interval_series(name, defined(change.overall.pass_at)) for name, change in results.items()]
    if not any(line.x for line in lines):  # only greedy decoding
        return []
    figures = [Figure("over-k", "Difference of pass@k", "line", "k", "difference", lines, x_log=True, percent="y")]
    for k in sorted({end(c.overall.pass_at) for c in results.values() if c.overall.pass_at for end in (min, max)}):
        bars = [_by_level(name, change, k) for name, change in results.items()]
        if any(len(series.x) > 1 for series in bars):
            title = f"Difference of pass@{k} by level"
            figures.append(Figure(f"level-pass-{k}", title, "bars", "level", "difference", bars, percent="y"))
    return figures


def _by_level(name: str, comparison: Comparison, k: int) -> Series:
    there = [change for change in comparison.levels if k in change.pass_at]
    return interval_series(name, {change.level or "(none)": change.pass_at[k] for change in there})


def _tables(first: str, results: dict[str, Comparison]) -> list[TableBlock]:
    overall = [(name, "", change.problems, change.overall) for name, change in results.items()]
    tables = [_table("all", f"Minus {first}: all problems", overall)]
    for id, title, parts in (
        ("by-test-set", "test set", [(name, change) for name, c in results.items() for change in c.test_sets]),
        ("by-level", "level", [(name, change) for name, c in results.items() for change in c.levels]),
    ):
        named = [
            (name, change.level or "(none)", max((i.problems for _, i in quantities(change)), default=0), change)
            for name, change in parts
        ]
        tables += [_table(id, f"Minus {first}: by {title}", named)] if named else []
    return tables


def _table(id: str, title: str, changes: Sequence[tuple[str, str, int, Change]]) -> TableBlock:
    named = [(name, level, problems, dict(quantities(change))) for name, level, problems, change in changes]
    names = list(dict.fromkeys(what for *_, known in named for what in known))
    names.sort(key=lambda what: (not what.startswith("pass@"), int(what[5:]) if what.startswith("pass@") else 0))
    levels = any(level for _, level, *_ in named)
    rows: list[list[CellValue]] = []
    for name, level, problems, known in named:
        cells = [known_interval(known[what]) if what in known else None for what in names]
        rows.append([name, *([level] if levels else []), problems, *cells])
    columns = ["run", *([title.rpartition("by ")[2]] if levels else []), "problems"]
    units: dict[str, Unit] = {what: "points" for what in names if what != "entropy"}
    return TableBlock(id, title, columns + names, rows, _UNITS, units)
