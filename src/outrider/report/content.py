"""The content of a report as plain data, for the page and the JSON, which are the same for every metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from outrider.measure import Interval
from outrider.record.json_data import json_data

SCHEMA_VERSION = 2  # 1 had intervals as text in a column of their own, ids as text, and no opening

PlotKind = Literal["line", "points", "bars", "stack", "sets"]
Unit = Literal["percent", "points"]
"""How a share is shown: 0.5 is 50 %; as a difference +50.0 points. The values stay shares."""


class RolloutsOf(NamedTuple):
    """A cell that names a problem or one rollout, and where its rollouts are.

    Attributes:
        problem: id of the problem.
        rollout: ``group/member`` of one rollout; "" for all of the problem.
        split: what they were drawn for.
        step: a step that has them.
        run: name of the run, in a report of several.
    """

    problem: str
    rollout: str
    split: str
    step: int
    run: str = ""


CellValue = str | float | int | Interval | RolloutsOf | None


@dataclass(frozen=True, slots=True)
class Series:
    """One line, cloud or row of bars.

    Attributes:
        name: in the legend.
        x, y: of one length; ``x`` holds names for bars. NaN is a gap.
        low, high: the interval of each ``y``; empty for none.
        hover: one text per point that its tooltip shows besides its numbers; empty for none.
    """

    name: str
    x: list[Any]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    hover: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot; ``y_range`` None fits the data.

    ``kind``: ``stack`` is shares that add up. ``sets`` draws one set per series: ``x`` names the regions, the same for
    all of them, and ``y`` is the size of a region that lies in the set, NaN of one that does not. ``percent``: the
    axes, of ``x`` and ``y``, whose numbers are shares that are shown in percent.
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
    """Rows under ``columns``; numbers are formatted by the page, None is an empty cell.

    ``units``: the columns that hold shares, or differences of shares. A cell that is an :class:`Interval` is shown with
    its ends. ``marked``: row and column of each cell that is shown with a †, which the note explains.
    """

    id: str
    title: str
    columns: list[str]
    rows: list[list[CellValue]]
    note: str = ""
    units: Mapping[str, Unit] = field(default_factory=dict)
    marked: list[tuple[int, int]] = field(default_factory=list)


class Observed(NamedTuple):
    """Characters of a text that an environment said, and whether it was asked for what cannot be had."""

    begin: int
    end: int
    error: bool


@dataclass(frozen=True, slots=True)
class ExampleNode:
    """One rollout among the examples. ``text`` is its own part; its parents' text is above it in the tree.

    Attributes:
        id, parent: of the rollout; ``parent`` None for a root.
        label: a few words: member, stage, tokens, reward.
        outcome: of the verdict; "" for none.
        at: own tokens of the parent before it branches.
        cut: characters of the parent's ``text`` before it branches; None where not known.
        observed: what environments said in ``text``.
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
    """A group to read: its prompt and its forest, parents before children.

    ``problem`` and ``step`` are those of the group, so that tables can lead here; "" and None where not known.
    """

    title: str
    prompt: str
    nodes: list[ExampleNode]
    problem: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One chapter: its question, how to read it, figures, tables and examples."""

    id: str
    title: str
    text: str
    figures: list[Figure] = field(default_factory=list)
    tables: list[TableBlock] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a user should know.

    Attributes:
        name: "entropy collapse", "dead prompts", …
        severity: ``act`` (the run is being wasted), ``watch`` (it may become so).
        sentence: the observation with its numbers, for a quick reader.
        numbers: each measured number under its name.
        threshold: the rule that fired, in words, with its limits.
        advice: what to try, most promising first.
        run: name of the run, in a report of several.
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
        title: the first line of the page.
        facts: a few words and numbers under it: recipe, rollouts, steps, tokens, Outrider's version.
        findings: worst first; empty if no check fired.
        checked: names of the checks that could be made.
        skipped: name of each check that could not, and what it would have needed.
        sections: in reading order; the page folds them.
        opening: what the page begins with, unfolded: its text is the verdict, the title what it is a verdict on.
        commands: by name of a run, the beginning of the command that shows its rollouts; by "" in a report of one run.
        examined: whether a run was checked at all, so that findings have a place on the page.
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
        """The title and the findings: sections hold whole rollouts."""
        return "\n".join([self.title, *(f"{f.severity}: {f.name}: {f.sentence}" for f in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data with a ``schema_version``; NaN and infinities become null."""
        return {"schema_version": SCHEMA_VERSION, **json_data(self)}
