"""The content of a report as plain data, from which both the HTML page and the JSON are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from outrider.measure import Interval
from outrider.record.json_data import json_data

SCHEMA_VERSION = 2  # version 1 had intervals as text in separate columns, ids as text, and no opening section

PlotKind = Literal["line", "points", "bars", "stack", "sets"]
Unit = Literal["percent", "points"]
"""The display unit of a share. 0.5 is shown as 50.0 % or, if it is a difference, as +50.0 points; in the JSON it stays
0.5."""


class RolloutsOf(NamedTuple):
    """A table cell that names a problem or one rollout, with the data needed to find the rollouts.

    Attributes:
        problem: id of the problem.
        rollout: ``group/member`` of one rollout; "" refers to all rollouts of the problem.
        split: purpose of the rollouts, such as ``train`` or ``evaluate``.
        step: a step in which the rollouts were sampled.
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
        x, y: coordinates, as two lists of equal length; for bars, ``x`` contains the names of the bars. NaN is a gap.
        low, high: interval bounds of each ``y``; empty if there are no intervals.
        hover: additional tooltip text of each point; empty if there is no additional text.
    """

    name: str
    x: list[Any]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    hover: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot. If ``y_range`` is None, the y axis is fitted to the data.

    If ``kind`` is ``stack``, the figure plots shares that add up to 1. If ``kind`` is ``sets``, the figure draws
    overlapping sets, one per series. A region consists of the elements that lie in the same sets. In every series,
    ``x`` has the names of all regions. ``y`` has a region's size if the region lies inside the series's set, and NaN
    otherwise. ``percent`` names the axes ("x", "y" or "xy") whose values are shares; the page shows these values as
    percentages.
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
    """A table with unformatted numbers, which the page formats. A value of None is an empty cell.

    ``units`` contains the units of those columns that contain shares, or differences between shares. An
    :class:`Interval` cell is shown with its bounds. ``marked`` contains the row and column of each cell that is shown
    with a †. ``note`` explains the †.
    """

    id: str
    title: str
    columns: list[str]
    rows: list[list[CellValue]]
    note: str = ""
    units: Mapping[str, Unit] = field(default_factory=dict)
    marked: list[tuple[int, int]] = field(default_factory=list)


class Observed(NamedTuple):
    """A character range of a rollout's text that an environment wrote.

    Attributes:
        error: whether the environment wrote this text in reply to an invalid request of the policy, such as a call to
            an unknown tool.
    """

    begin: int
    end: int
    error: bool


@dataclass(frozen=True, slots=True)
class ExampleNode:
    """One rollout of a group that the page shows as an example. A branch's ``text`` lacks the prefix that it continues.

    Attributes:
        id: id of the rollout.
        parent: id of the rollout from which this branch starts; None if the rollout starts at the prompt.
        label: short caption, such as "3 · 0-uniform · 120 tokens · reward 1": index in the group, stage that requested
            the rollout, number of tokens, and reward.
        outcome: the verifier's result, such as "correct"; "" if the rollout was not verified.
        at: number of tokens from the start of the parent's ``text`` to the branch point.
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
    """A group of rollouts shown in full: the prompt and the rollouts, with parents before children.

    Tables link to the example by the group's ``problem`` ("" if unknown) and ``step`` (None if unknown).
    """

    title: str
    prompt: str
    nodes: list[ExampleNode]
    problem: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a report: a title, a text that explains how to read the section, figures, tables and examples."""

    id: str
    title: str
    text: str
    figures: list[Figure] = field(default_factory=list)
    tables: list[TableBlock] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a check found in a run.

    Attributes:
        name: name of the finding, such as "entropy collapse" or "dead prompts".
        severity: ``act`` (the run is wasting compute) or ``watch`` (the run may start to waste compute).
        sentence: one sentence on what was observed, with numbers.
        numbers: measured values by name.
        threshold: the rule that the check applied, in words and with its thresholds.
        advice: possible remedies, most promising first.
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
    """A complete report on one run or on several runs.

    Attributes:
        title: first line of the page.
        facts: a few facts to show under the title, such as recipe, rollouts, steps, tokens and Outrider's version.
        findings: findings, most severe first; empty if no check found a problem.
        checked: names of the checks that were run.
        skipped: the data that were missing for each skipped check, keyed by the check's name.
        sections: sections in reading order; the page shows these sections collapsed.
        opening: the page's first section, which is shown expanded; its text is the overall verdict.
        commands: the shell command that shows a run's rollouts, keyed by run name ("" in a report of one run). The page
            adds the arguments that select a problem and step.
        examined: whether a run was checked; if False, the page omits its part on findings.
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
        """Return the title and the findings, without the sections, which contain whole rollouts."""
        return "\n".join([self.title, *(f"{f.severity}: {f.name}: {f.sentence}" for f in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data with a ``schema_version``; NaN and infinities become null."""
        return {"schema_version": SCHEMA_VERSION, **json_data(self)}
