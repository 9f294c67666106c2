"""The section on problems that k samples do not solve: their number per run, their overlap between runs, and the effect
of chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from outrider.measure.unsolvable import MODELS, Overlap, Unsolved, fit_pass_rates, overlap, pass_rate_bound, unsolved
from outrider.report.comparing.cut_runs import ComparedRun
from outrider.report.comparing.rollouts import at_hand, common_samples, query_samples
from outrider.report.content import CellValue, Figure, RolloutsOf, Section, Series, TableBlock
from outrider.report.sections.seen import cell

_TEXT = (
    "A problem is unsolved by a run if none of its first {k} samples is correct (all runs have {k} samples). "
    "Training moves problems in both directions: other runs can solve a problem that one run does not. Unsolved does "
    "not mean unsolvable: the pass rate of one such problem is at most {bound:.3g} with 95 % confidence, and among "
    "many problems some are unsolved by chance. The table gives the expected number of unsolved problems that {k} "
    "more samples would solve."
)
_COUNTS = (
    "SELECT problem_id, any_value(level) AS level, count(*) AS n, sum(success)::BIGINT AS c FROM samples "
    "WHERE place < ? GROUP BY problem_id ORDER BY problem_id"
)


@dataclass(frozen=True, slots=True)
class Sets:
    """The unsolved problems of one run.

    ``luck`` is the mean probability that k more samples solve an unsolved problem. ``levels`` maps every problem id to
    the problem's level.
    """

    parts: Unsolved
    luck: float
    levels: Mapping[str, str]


def section(compared: Sequence[ComparedRun]) -> Section | None:
    """Return a section with the number, overlap and list of unsolved problems, and a set diagram for two to four runs.

    The result is None if fewer than two runs have evaluation rollouts on disk, or if the runs have no common problem.
    """
    there = at_hand(compared)
    if len(there) < 2:
        return None
    k = common_samples(there)
    sets = {one.name: sets_of(one, k) for one in there}
    decided = frozenset.intersection(*(s.parts.unsolved | s.parts.solved for s in sets.values()))
    if not decided:
        return None
    problems = frozenset().union(*(s.parts.unsolved | s.parts.solved | s.parts.undecided for s in sets.values()))
    text = [_TEXT.format(k=k, bound=float(pass_rate_bound(k))), _excluded(decided, problems)]
    text += [f"`{one.name}` is excluded, because its rollouts are not on disk." for one in compared if one not in there]
    figures, tables = [], [_sizes(sets, decided)]
    if MODELS[0] <= len(sets) <= MODELS[1]:
        result = overlap({name: s.parts for name, s in sets.items()})
        figures, tables = [_picture(result, k)], [*tables, _regions(result)]
    tables.append(_members(sets, decided, {one.name: one for one in there}))
    return Section(
        "unsolved", f"Problems that {k} samples do not solve", "\n\n".join(filter(None, text)), figures, tables
    )


def sets_of(one: ComparedRun, k: int) -> Sets:
    """Return the problems that the run's first ``k`` verified samples do not solve."""
    columns = query_samples(one, _COUNTS, [k])
    problems, n, c = columns["problem_id"].tolist(), columns["n"].astype(int), columns["c"].astype(int)
    result = unsolved(problems, n, c, k)
    luck = fit_pass_rates(n, c).unlucky([k], more=k)
    levels = zip(problems, (level or "" for level in columns["level"].tolist()), strict=True)
    return Sets(result, luck, dict(levels))


def _excluded(decided: frozenset[str], problems: frozenset[str]) -> str:
    missing = len(problems) - len(decided)
    compared = f"{len(decided):,} problems are compared"
    return f"{compared}; {missing:,} problems with no or too few samples are excluded." if missing else f"{compared}."


def _sizes(sets: Mapping[str, Sets], decided: frozenset[str]) -> TableBlock:
    mine = {name: s.parts.unsolved & decided for name, s in sets.items()}
    rows: list[list[CellValue]] = []
    for name, problems in mine.items():
        others = [theirs for other, theirs in mine.items() if other != name]
        alone, all_of_them = problems.difference(*others), problems.intersection(*others)
        again = len(problems) * sets[name].luck
        rows.append([name, len(problems), len(alone), len(all_of_them), cell(again)])
    columns = ["run", "unsolved", "by this run only", "by all runs", "expected solved by k more samples"]
    note = (
        "The last column is the number expected from a beta distribution fitted to the pass rates of all problems of "
        "this run. The number is biased upwards if some problems cannot be solved at all."
    )
    return TableBlock("sizes", "Unsolved problems of each run", columns, rows, note)


def _picture(overlaps: Overlap, k: int) -> Figure:
    """Return a set diagram with one series per run. A series has one value for each region of the diagram.

    The value is the number of problems in the region. It is NaN if the run solved these problems.
    """
    names = [" and ".join(region) for region in overlaps.regions]
    series = [
        Series(model, names, [float(size) if model in region else np.nan for region, size in overlaps.sizes.items()])
        for model in overlaps.models
    ]
    note = f"{len(overlaps.solved_by_all):,} problems are solved by every run."
    return Figure(
        "sets", f"Unsolved by {k} samples", "sets", "runs that do not solve them", "problems", series, note=note
    )


def _regions(overlaps: Overlap) -> TableBlock:
    rows: list[list[CellValue]] = [[", ".join(region), size] for region, size in overlaps.sizes.items()]
    rows.append(["none", len(overlaps.solved_by_all)])
    return TableBlock(
        "regions", "Problems by the set of runs that do not solve them", ["unsolved by exactly", "problems"], rows
    )


def _members(sets: Mapping[str, Sets], decided: frozenset[str], runs: Mapping[str, ComparedRun]) -> TableBlock:
    """Return all problems that at least one run does not solve, sorted by the number of runs that do not solve them.
    Problems that no run solves come first."""
    levels = {problem: level for s in sets.values() for problem, level in s.levels.items()}
    failing = {p: [name for name, s in sets.items() if p in s.parts.unsolved] for p in decided}
    order = sorted((p for p in decided if failing[p]), key=lambda p: (-len(failing[p]), failing[p], p))
    rows: list[list[CellValue]] = [[_place(p, runs[failing[p][0]]), levels[p], ", ".join(failing[p])] for p in order]
    return TableBlock("members", "Unsolved problems", ["problem", "level", "unsolved by"], rows)


def _place(problem: str, one: ComparedRun) -> RolloutsOf:
    """Return a link to a run's samples of a problem."""
    return RolloutsOf(problem, "", one.split, one.step or 0, one.name)
