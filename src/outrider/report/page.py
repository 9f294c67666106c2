"""Renders a report as one self-contained HTML page, in which no model output can be executed.

The template escapes rollout text; plot data are embedded as JSON. As a second line of defence, a content security
policy allows only the page's own scripts, by hash, so that injected code could not run or load other files.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from outrider.measure import Interval
from outrider.report.content import (
    CellValue,
    Example,
    ExampleNode,
    Figure,
    Finding,
    Report,
    RolloutsOf,
    Section,
    TableBlock,
)
from outrider.report.digits import cells, is_text, number
from outrider.report.plot_data import has_data, plot_data, slots
from outrider.report.safe_text import in_script, prose, visible

Value = TypeVar("Value")

PARTS = Path(__file__).parent / "page"
SCRIPTS = ("sets.js", "plots.js", "folds.js", "reading.js", "live.js")
_AROUND = 28  # characters shown in the tree on each side of a pivot


def render(report: Report) -> str:
    """Render a report as one self-contained HTML document, which includes the plotting library (about 5 MB).

    In prose (section texts, notes, sentences, advice), names may be in ``backticks``, and a blank line starts a
    paragraph. Numbers in tables get three significant digits (:mod:`outrider.report.digits`). NaN is shown as n/a, and
    None as an empty cell. In a report of several runs, the names of ``report.facts`` and of the checks begin with the
    run's name and a colon, and the page groups them by run. A figure without finite values shows "no data". A rollout
    that is listed before its parent is shown as if the rollout started at the prompt. Characters that cannot be shown
    (control characters, halves of surrogate pairs) are replaced with visible characters.
    """
    facts, anchors = _by_run(report.facts), _anchors(report)
    figures = _figures(report, anchors)
    colours = slots(figures.values(), [run for run in facts if run])
    page = "".join(_part(name) for name in SCRIPTS)
    scripts = {"theme": _part("theme.js"), "plotly": _plotly(), "page": page}
    template = _environment().get_template("page.html")
    html = template.render(
        report=report,
        facts=facts.pop("", {}),
        runs=_runs(facts),
        checked=_alike(_by_run(dict.fromkeys(report.checked, ""))),
        skipped=_alike(_by_run(report.skipped)),
        anchors=anchors,
        examples=_examples(report, anchors),
        colours={name: slot for slots_ in colours for name, slot in slots_.items()},
        style=Markup(_part("page.css")),
        scripts={name: Markup(source) for name, source in scripts.items()},
        policy="; ".join(_policy(scripts.values())),
        plots=in_script({name: plot_data(f, c) for (name, f), c in zip(figures.items(), colours, strict=True)}),
    )
    # responses may hold lone surrogates, which UTF-8 cannot encode
    return html.encode("utf-8", "replace").decode()


class TextSpan(NamedTuple):
    """A span of a rollout's text.

    Attributes:
        pivot: whether branches start at the beginning of the span.
        observed: whether an environment wrote the span.
        error: whether the span is the environment's reply to an invalid request, such as a call to an unknown tool.
    """

    text: str
    pivot: bool
    observed: bool
    error: bool


class PivotMark(NamedTuple):
    """A pivot: a position at which branches leave their parent rollout.

    Attributes:
        at: number of the parent's tokens before the pivot. If the parent is itself a branch, the prefix that it
            continues is excluded.
        branches: rollouts that branch at the pivot.
        before, after: the parent's text on both sides of the pivot; empty if the position in the text is unknown.
    """

    at: int
    branches: list[RolloutNode]
    before: str
    after: str


@dataclass
class RolloutNode:
    """A rollout as a node of a group's forest, with the branches that start from the rollout."""

    node: ExampleNode
    forks: dict[int, list[RolloutNode]] = field(default_factory=dict)  # by token index of the pivot

    @property
    def pivots(self) -> list[PivotMark]:
        """The pivots (positions at which branches start) in token order."""
        return [
            PivotMark(at, branches, *self._around(branches[0].node.cut)) for at, branches in sorted(self.forks.items())
        ]

    @property
    def spans(self) -> list[TextSpan]:
        """The spans of the text in order, split at pivots with a known position and at every change between model and
        environment."""
        text, told = self.node.text, self.node.observed
        pivots = {branch.node.cut for branches in self.forks.values() for branch in branches} - {None}
        ends = {at for one in told for at in (one.begin, one.end)} | pivots | {0, len(text)}
        places = sorted(at for at in ends if at is not None and at <= len(text))
        spans = []
        for begin, end in zip(places, [*places[1:], None], strict=True):
            by = next((one for one in told if one.begin <= begin < one.end), None)
            if end is not None or begin in pivots:
                spans.append(TextSpan(text[begin:end], begin in pivots, by is not None, by is not None and by.error))
        return spans

    def _around(self, cut: int | None) -> tuple[str, str]:
        if cut is None:
            return "", ""
        text = self.node.text
        before, after = text[max(0, cut - _AROUND) : cut], text[cut : cut + _AROUND]
        return "…" * (cut > _AROUND) + before, after + "…" * (len(text) > cut + _AROUND)


def forest(example: Example) -> list[RolloutNode]:
    """Return an example's rollouts that start at the prompt. Each rollout contains its branches, grouped by the
    position at which the branches start."""
    seen: dict[str, RolloutNode] = {}
    roots = []
    for node in example.nodes:
        rollout = seen[node.id] = RolloutNode(node)
        parent = seen.get(node.parent) if node.parent is not None and node.parent != node.id else None
        if parent is None:
            roots.append(rollout)
        else:
            parent.forks.setdefault(node.at, []).append(rollout)
    return roots


def _by_run(named: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Group entries by the run's name, which comes before a colon in each entry's name. Entries that name no run are
    grouped under "".

    >>> _by_run({"a: steps": 1, "b: steps": 2, "version": 3})
    {'a': {'steps': 1}, 'b': {'steps': 2}, '': {'version': 3}}
    """
    results: dict[str, dict[str, Value]] = {}
    for name, value in named.items():
        run, _, thing = name.rpartition(": ")
        results.setdefault(run, {})[thing] = value
    return results


def _runs(facts: Mapping[str, Mapping[str, CellValue]]) -> TableBlock:
    """Return the facts of several runs as a table with one row per run."""
    names = list(dict.fromkeys(name for known in facts.values() for name in known))
    rows: list[list[CellValue]] = [[run, *map(known.get, names)] for run, known in facts.items()]
    return TableBlock("runs", "Runs", ["run", *names], rows)


def _alike(by_run: Mapping[str, dict[str, str]]) -> list[tuple[str, dict[str, str]]]:
    """Merge runs that have equal entries, and join the names of the merged runs.

    >>> _alike({"a": {"x": ""}, "b": {"y": ""}, "c": {"x": ""}})
    [('a, c', {'x': ''}), ('b', {'y': ''})]
    """
    shared: list[tuple[list[str], dict[str, str]]] = []
    for run, things in by_run.items():
        same = next((runs for runs, other in shared if other == things), None)
        if same is None:
            shared.append(([run], things))
        else:
            same.append(run)
    return [(", ".join(runs), things) for runs, things in shared]


def _anchors(report: Report) -> dict[tuple[str | int, ...], str]:
    """Return the URL anchor of each part, keyed by the part's position. For example, ("figure", 2, 0) is the first
    figure of the third section."""
    taken = {"contents", "expand", "findings", "live", "main", "opening", "plotly", "plots", "said", "theme"}

    def unique(*words: str) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-") or "part"
        numbered = (plain if copy == 1 else f"{plain}-{copy}" for copy in count(1))
        result = next(name for name in numbered if name not in taken)
        taken.add(result)
        return result

    anchors: dict[tuple[str | int, ...], str] = {}
    for i, section in enumerate(report.sections):  # first, so that sections get the shortest anchors
        anchors["section", i] = unique(section.id)
    for i, finding in enumerate(report.findings):
        anchors["finding", i] = unique(finding.name, finding.run)
    for i, section in enumerate(report.sections):
        anchors |= {("figure", i, j): unique(section.id, figure.id) for j, figure in enumerate(section.figures)}
        anchors |= {("table", i, j): unique(section.id, table.id) for j, table in enumerate(section.tables)}
        anchors |= {("example", i, j): unique(section.id, example.title) for j, example in enumerate(section.examples)}
    if report.opening is not None:
        anchors |= {("opening-figure", j): unique(figure.id) for j, figure in enumerate(report.opening.figures)}
        anchors |= {("opening-table", j): unique(table.id) for j, table in enumerate(report.opening.tables)}
    return anchors


def _figures(report: Report, anchors: Mapping[tuple[str | int, ...], str]) -> dict[str, Figure]:
    """Return every figure in reading order, keyed by its URL anchor."""
    first = report.opening.figures if report.opening is not None else []
    return {anchors["opening-figure", j]: figure for j, figure in enumerate(first)} | {
        anchors["figure", i, j]: figure
        for i, section in enumerate(report.sections)
        for j, figure in enumerate(section.figures)
    }


def _examples(report: Report, anchors: Mapping[tuple[str | int, ...], str]) -> dict[tuple[str, str, int | None], str]:
    """Return the HTML anchors of the examples. A rollout has the key (problem, rollout id, step), and a problem has the
    key (problem, "", None)."""
    places: dict[tuple[str, str, int | None], str] = defaultdict(str)
    for i, section in enumerate(report.sections):
        for j, example in enumerate(section.examples):
            if example.problem:
                name = anchors["example", i, j]
                places.setdefault((example.problem, "", None), name)
                places |= {(example.problem, node.id, example.step): name for node in example.nodes}
    return places


def _command(cell: RolloutsOf, commands: Mapping[str, str]) -> str:
    """Return the shell command that shows the rollouts to which a table cell refers; "" if the run's path is unknown.

    >>> _command(RolloutsOf("sum 3", "g/1", "evaluate", 7), {"": "outrider show runs/a"})
    "outrider show runs/a --name evaluate --step 7 --problem 'sum 3'"
    >>> _command(RolloutsOf("p", "", "train", 7), {"": "outrider view a.parquet"})
    'outrider view a.parquet'
    """
    base = commands.get(cell.run, commands.get("", ""))
    if not base.startswith("outrider show "):
        return base
    split = "" if cell.split == "train" else f" --name {shlex.quote(cell.split)}"
    return f"{base}{split} --step {cell.step} --problem {shlex.quote(cell.problem)}"


def _ids(report: Report) -> bool:
    """Whether any table has a cell that refers to rollouts."""
    tables = [table for section in report.sections for table in section.tables]
    return any(isinstance(cell, RolloutsOf) for table in tables for row in table.rows for cell in row)


def _contents(section: Section) -> str:
    """Summarise a collapsed section in a few words.

    >>> _contents(Section("a", "A", "", [Figure("f", "F", "line", "x", "y", [])], []))
    '1 chart'
    """
    counts = {"chart": len(section.figures), "table": len(section.tables), "group": len(section.examples)}
    return ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for what, n in counts.items() if n)


def _raw(cell: CellValue) -> CellValue:
    """Return the value by which the page sorts a cell's column."""
    return cell.value if isinstance(cell, Interval) else cell


def _policy(scripts: Iterable[str]) -> list[str]:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    return [
        "default-src 'none'",
        "script-src " + " ".join(f"'sha256-{digest}'" for digest in hashes),
        "style-src 'unsafe-inline'",  # plotly sets styles
        "img-src data: blob:",  # plotly saves images
        "connect-src 'self'",  # `--watch` polls its own server for updates
        "base-uri 'none'",
        "form-action 'none'",
    ]


def _minus(shown: str) -> str:
    """Replace the hyphen of a formatted number with a minus sign, which is as wide as a plus sign."""
    return shown.replace("-", "\N{MINUS SIGN}")


def _counts(findings: list[Finding]) -> str:
    """Return the number of findings to act on and to watch, in words.

    >>> _counts([Finding("a", "act", "", {}, "", []), Finding("b", "watch", "", {}, "", [])])
    '1 to act on, 1 to watch'
    """
    acts = sum(finding.severity == "act" for finding in findings)
    words = [f"{acts} to act on"] * (acts > 0) + [f"{len(findings) - acts} to watch"] * (len(findings) > acts)
    return ", ".join(words)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    loader = FileSystemLoader(PARTS)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "minus": _minus, "prose": prose, "visible": visible, "counts": _counts}
    environment.filters |= {"forest": forest, "has_data": has_data}
    environment.filters |= {"command": _command, "contents": _contents, "ids": _ids, "raw": _raw}
    environment.globals |= {"cells": cells, "is_text": is_text}
    environment.tests |= {"place": lambda cell: isinstance(cell, RolloutsOf)}
    return environment


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    """Read Plotly's script from its package, since importing ``plotly.offline.get_plotlyjs`` would be slow."""
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
