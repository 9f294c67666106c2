"""Differences from the first run, problem by problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.errors import UserError
from outrider.measure import Change, Comparison, Interval, compare
from outrider.measure.passk import shown_ks
from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.content import CellValue, Figure, Section, Series, TableBlock, Unit
from outrider.report.digits import points
from outrider.report.sections.frontier import defined, interval_series, known_interval

_TEXT = (
    "Each run minus the first one, `{first}`, on the held-out problems that both have. Intervals are 95 % bootstrap "
    "over problems, paired: they say whether the difference would stay on other problems of this kind. They do not "
    "cover the seeds of the runs, so a difference here may be one of seeds and not of methods (`outrider bench` "
    "repeats recipes over seeds); and of twenty intervals where nothing differs, one excludes 0 by chance."
)


_UNITS = "Percentage points, and nats of the entropy, with 95 % intervals in brackets."


def section(compared: Sequence[ComparedRun]) -> tuple[Section, list[str]]:
    """Paired differences from the first run as figures and tables, and a sentence about each other run.

    Where no two runs can be paired there is only text, which says why.
    """
    first, *others = compared
    changes = {one.name: _paired(first, one) for one in others}
    results = {name: change for name, change in changes.items() if isinstance(change, Comparison)}
    sentences = [_sentence(first.name, name, c) if isinstance(c, Comparison) else c for name, c in changes.items()]
    text = "\n\n".join([_TEXT.format(first=first.name), *sentences] if results else sentences)
    if not results:
        return Section("differences", "Differences", text), sentences
    return Section("differences", "Differences", text, _figures(results), _tables(first.name, results)), sentences


def _paired(first: ComparedRun, one: ComparedRun) -> Comparison | str:
    """The differences, or a sentence with the reason why nothing can be paired."""
    for unknown in (first, one):
        if unknown.evaluation is None:
            return (
                f"`{unknown.name}` has no evaluation to compare, so `{one.name}` cannot be paired with `{first.name}`."
            )
    assert first.evaluation is not None
    assert one.evaluation is not None
    try:
        return compare(first.evaluation, one.evaluation)
    except UserError:
        return f"`{one.name}` and `{first.name}` have no problem in common, so nothing can be paired."


def quantities(change: Change) -> Iterator[tuple[str, Interval]]:
    """The quantities of a change: pass@1, pass@8 and that of the largest k, greedy, majority, entropy; those known."""
    known = [(f"pass@{k}", change.pass_at[k]) for k in shown_ks(change.pass_at)]
    known += [("greedy", change.greedy), ("majority", change.majority), ("entropy", change.entropy)]
    return ((name, interval) for name, interval in known if interval.value == interval.value)


def _sentence(first: str, name: str, comparison: Comparison) -> str:
    named = list(quantities(comparison.overall))
    differ = [f"{what} ({_shown(what, i)})" for what, i in named if i.excludes_zero]
    same = [what for what, i in named if not i.excludes_zero]
    parts = [f"the interval excludes 0 for {joined(differ)}"] * bool(differ)
    parts += [f"it does not for {joined(same)}" if differ else f"no interval excludes 0 ({joined(same)})"] * bool(same)
    paired = f"{comparison.problems:,} problems are paired"
    if comparison.unpaired:
        paired += f", and {comparison.unpaired:,} that only one of the two has are left out"
    return (
        f"`{name}` minus `{first}`: {'; '.join(parts) or 'nothing is known of both'}. {paired[0].upper()}{paired[1:]}."
    )


def _shown(what: str, change: Interval) -> str:
    """A difference with its interval: percentage points, and nats of the entropy."""
    if what == "entropy":
        return f"{change.value:+.3f} nats, {change.low:+.3f} to {change.high:+.3f}"
    return f"{points(change.value)}, {100 * change.low:+.1f} to {100 * change.high:+.1f}"


def joined(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> joined(["a", "b", "c"]), joined(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _figures(results: dict[str, Comparison]) -> list[Figure]:
    lines = [interval_series(name, defined(change.overall.pass_at)) for name, change in results.items()]
    figures = [Figure("over-k", "Difference of pass@k", "line", "k", "difference", lines, x_log=True, percent="y")]
    for k in sorted({end(c.overall.pass_at) for c in results.values() for end in (min, max)}):
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
    levels = [
        (name, change.level or "(none)", max((i.problems for _, i in quantities(change)), default=0), change)
        for name, comparison in results.items()
        for change in comparison.levels
    ]
    tables = [_table("all", f"Minus {first}: all problems", overall)]
    return [*tables, _table("by-level", f"Minus {first}: by level", levels)] if levels else tables


def _table(id: str, title: str, changes: Sequence[tuple[str, str, int, Change]]) -> TableBlock:
    named = [(name, level, problems, dict(quantities(change))) for name, level, problems, change in changes]
    names = list(dict.fromkeys(what for *_, known in named for what in known))
    names.sort(key=lambda what: (not what.startswith("pass@"), int(what[5:]) if what.startswith("pass@") else 0))
    levels = any(level for _, level, *_ in named)
    rows: list[list[CellValue]] = []
    for name, level, problems, known in named:
        cells = [known_interval(known[what]) if what in known else None for what in names]
        rows.append([name, *([level] if levels else []), problems, *cells])
    columns = ["run", *(["level"] if levels else []), "problems"]
    units: dict[str, Unit] = {what: "points" for what in names if what != "entropy"}
    return TableBlock(id, title, columns + names, rows, _UNITS, units)
