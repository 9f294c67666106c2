"""A report's content as plain data, from which both the HTML page and the JSON are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from outrider.measure import Interval
from outrider.record.json_data import json_data

SCHEMA_VERSION = 2  # version 1 had intervals as text in separate columns, ids as text, and no opening

PlotKind = Literal["line", "points", "bars", "stack", "sets"]
Unit = Literal["percent", "points"]
"""How a share is displayed: 0.5 is shown as 50.0 % or, if it is a difference, as +50.0 points; the data keep 0.5."""


class RolloutsOf(NamedTuple):
    """A table cell that names a problem or one rollout, and says how to find its rollouts.

    Attributes:
        problem: id of the problem.
        rollout: ``group/member`` of one rollout; "" stands for all rollouts of the problem.
        split: purpose of the rollouts, such as ``train`` or ``evaluate``.
        step: a step at which the rollouts were drawn.
        run: name of the run; "" in a report of one run.
    """

    problem: str
    rollout: str
    split: str
    step: int
    run: str = ""


CellValue = str | float | int | Interval | RolloutsOf | None


@dataclass(frozen=True, slots=True)
class Series:
    """One line, scatter or set of bars.

    Attributes:
        name: label in the legend.
        x, y: coordinates, two lists of equal length; for bars, ``x`` holds their names. NaN is a gap.
        low, high: interval bounds of each ``y``; empty if there are no intervals.
        hover: additional tooltip text of each point; empty if there is none.
    """

    name: str
    x: list[Any]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    hover: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot; if ``y_range`` is None, the y axis is fitted to the data.

    ``kind``: ``stack`` plots shares that add up to 1. ``sets`` draws overlapping sets, one per series: ``x`` names the
    regions, which all series share. ``y`` is the region's size if it lies in the set, otherwise NaN. ``percent``: the
    axes ("x", "y" or "xy") whose values are shares to be shown in percent.
    """

    id: str
    title: str
    kind: PlotKind
    x: str
    y: str
    series: list[Series]
    x_log: bool = False
    y_range: tuple[float, float] | None = None
    note: str = ""
    percent: str = ""


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table. The page formats its numbers; None is an empty cell.

    ``units``: the unit of each column that holds shares or differences of shares. An :class:`Interval` cell is shown
    with its bounds. ``marked``: row and column of each cell that is shown with a †, which ``note`` explains.
    """

    id: str
    title: str
    columns: list[str]
    rows: list[list[CellValue]]
    note: str = ""
    units: Mapping[str, Unit] = field(default_factory=dict)
    marked: list[tuple[int, int]] = field(default_factory=list)


class Observed(NamedTuple):
    """Character range of a rollout's text that an environment wrote.

    Attributes:
        error: whether the range answers an invalid request.
    """

    begin: int
    end: int
    error: bool


@dataclass(frozen=True, slots=True)
class ExampleNode:
    """One rollout of an example. ``text`` is the rollout's own text, without the prefix that it shares with its parent.

    Attributes:
        id, parent: ids of the rollout and of its parent; ``parent`` is None for a root.
        label: short caption: member, stage, tokens, reward.
        outcome: outcome of the verdict; "" if there is no verdict.
        at: number of the parent's own tokens before the branch point.
        cut: number of characters of the parent's ``text`` before the branch point; None if unknown.
        observed: ranges of ``text`` that an environment wrote.
    """

    id: str
    parent: str | None
    label: str
    outcome: str
    text: str
    at: int = 0
    cut: int | None = None
    observed: list[Observed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Example:
    """A group of rollouts shown in full: the prompt and the rollouts, parents before children.

    Tables link to the example by the group's ``problem`` and ``step``, which are "" and None if unknown.
    """

    title: str
    prompt: str
    nodes: list[ExampleNode]
    problem: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One chapter: a title, a text that explains how to read it, figures, tables and examples."""

    id: str
    title: str
    text: str
    figures: list[Figure] = field(default_factory=list)
    tables: list[TableBlock] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a run that a check found.

    Attributes:
        name: "entropy collapse", "dead prompts", …
        severity: ``act`` (the run is wasting compute) or ``watch`` (the run may start to).
        sentence: the observation with its numbers, in one sentence.
        numbers: measured values by name.
        threshold: the rule that fired, in words, with its thresholds.
        advice: what to try, most promising first.
        run: name of the run; "" in a report of one run.
    """

    name: str
    severity: Literal["act", "watch"]
    sentence: str
    numbers: dict[str, float]
    threshold: str
    advice: list[str]
    run: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """A whole report of one run or of several.

    Attributes:
        title: first line of the page.
        facts: a few words and numbers under the title: recipe, rollouts, steps, tokens, Outrider's version.
        findings: most severe first; empty if no check fired.
        checked: names of the checks that were made.
        skipped: the data that each skipped check lacks, by the check's name.
        sections: chapters in reading order; the page shows them collapsed.
        opening: the page's first section, shown expanded: its text is the overall verdict, its title the subject.
        commands: beginning of the command that shows a run's rollouts, by run name; by "" in a report of one run.
        examined: whether a run was checked; if not, the page has no part for findings.
    """

    title: str
    facts: dict[str, CellValue]
    findings: list[Finding]
    checked: list[str]
    skipped: dict[str, str]
    sections: list[Section]
    opening: Section | None = None
    commands: dict[str, str] = field(default_factory=dict)
    examined: bool = True

    def __repr__(self) -> str:
        """Return the title and the findings, without the sections, which hold whole rollouts."""
        return "\n".join([self.title, *(f"{f.severity}: {f.name}: {f.sentence}" for f in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data with a ``schema_version``; NaN and infinities become null."""
        return {"schema_version": SCHEMA_VERSION, **json_data(self)}
