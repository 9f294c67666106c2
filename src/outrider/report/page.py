"""A report as one HTML page: it needs no network, and nothing that a model wrote can run in it.

Text of rollouts is escaped by the template, data of plots as JSON. Behind that stands a content policy that allows the
page's own scripts by their hash and no address at all, so what slipped through would still neither run nor load.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from outrider.report.content import Example, Figure, Finding, Node, Report
from outrider.report.digits import column, is_text, number

PARTS = Path(__file__).parent / "page"
SCRIPTS = ("plots.js", "reading.js", "live.js")
PALETTE = ("blue", "vermilion", "green", "purple", "orange", "sky", "grey")  # told apart by all eyes; page.css has them
MEANINGS = {  # names that mean the same on every page, as in the picture of a run (train/curves.py)
    "solved": "green", "mixed": "orange", "unsolved": "grey",
    "correct": "green", "incorrect": "vermilion", "unparseable": "orange", "timeout": "purple", "error": "sky",
    "before": "grey", "base": "grey", "after": "vermilion",
}  # fmt: skip


def render(report: Report) -> str:
    """One self-contained HTML document, about 5 MB of which draw the plots.

    Prose (texts of sections, notes, sentences, advice) may set names in ``backticks``; a blank line makes a paragraph.
    Numbers in tables get three significant digits (:mod:`outrider.report.digits`); NaN is n/a, None is empty.
    A figure without a finite number says "no data". A node whose parent was not seen before it counts as a root.
    Characters that cannot be shown (control characters, halves of surrogate pairs) are replaced by visible ones.
    """
    anchors = _anchors(report)
    figures = {anchors["figure", i, j]: f for i, s in enumerate(report.sections) for j, f in enumerate(s.figures)}
    colours = slots(figures.values())
    page = "".join(_part(name) for name in SCRIPTS)
    scripts = {"theme": _part("theme.js"), "plotly": _plotly(), "page": page}
    html = (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            anchors=anchors,
            colours={name: slot for slots_ in colours for name, slot in slots_.items()},
            style=Markup(_part("page.css")),
            scripts={name: Markup(source) for name, source in scripts.items()},
            policy="; ".join(_policy(scripts.values())),
            plots=_json({name: _plot(f, c) for (name, f), c in zip(figures.items(), colours, strict=True)}),
        )
    )
    return html.encode("utf-8", "replace").decode()


def slots(figures: Iterable[Figure]) -> list[dict[str, str]]:
    """For each figure the colour of every series, by name.

    A name keeps its colour through the page, so a run is followed from plot to plot; within a figure colours repeat
    only when it has more series than the palette has colours.

    >>> from outrider.report.content import Series
    >>> plot = lambda *names: Figure("f", "", "line", "", "", [Series(name, [], []) for name in names])
    >>> slots([plot("a", "solved"), plot("b", "a")])
    [{'a': 'blue', 'solved': 'green'}, {'b': 'vermilion', 'a': 'blue'}]
    """
    known = dict(MEANINGS)
    found = []
    for figure in figures:
        names = list(dict.fromkeys(series.name for series in figure.series))
        here: dict[str, str] = {}
        for name in sorted(names, key=lambda name: name not in known):  # those with a colour choose first
            taken = set(here.values())
            free = [slot for slot in PALETTE if slot not in taken] or [PALETTE[len(here) % len(PALETTE)]]
            here[name] = known[name] if known.get(name, "") in free else free[0]
            known.setdefault(name, here[name])
        found.append({name: here[name] for name in names})
    return found


@dataclass
class Rollout:
    """A node of the forest with what branches off it."""

    node: Node
    forks: dict[int, list[Rollout]] = field(default_factory=dict)  # by the token before which they branch

    @property
    def pivots(self) -> list[tuple[int, list[Rollout]]]:
        return sorted(self.forks.items())


def forest(example: Example) -> list[Rollout]:
    """The roots of an example, each with its branches in order of their pivots."""
    seen: dict[str, Rollout] = {}
    roots = []
    for node in example.nodes:
        rollout = seen[node.id] = Rollout(node)
        parent = seen.get(node.parent) if node.parent is not None and node.parent != node.id else None
        if parent is None:
            roots.append(rollout)
        else:
            parent.forks.setdefault(node.at, []).append(rollout)
    return roots


def _has_data(figure: Figure) -> bool:
    return any(y is not None and math.isfinite(y) for series in figure.series for y in series.y)


def _plot(figure: Figure, colours: dict[str, str]) -> dict[str, Any]:
    """What plots.js draws; ``again`` counts the earlier series of the same colour, which need another dash."""
    series, used = [], list[str]()
    for s in figure.series:
        slot = colours[s.name]
        low, high, hover = s.low or None, s.high or None, s.hover or None
        again = used.count(slot)
        used.append(slot)
        series.append({"name": s.name, "x": s.x, "y": s.y, "low": low, "high": high, "hover": hover}
                      | {"colour": slot, "again": again})  # fmt: skip
    axes = {"x": figure.x, "y": figure.y, "xLog": figure.x_log, "yRange": figure.y_range}
    return {"title": figure.title, "kind": figure.kind, **axes, "series": series}


def _json(data: Any) -> Markup:
    r"""JSON that may stand in a ``<script>``: nothing in it can end the element, and it is plain ASCII.

    >>> _json({"a": "</script>\u2028", "b": float("nan"), "c": 1 / 3})
    Markup('{"a":"\\u003c/script\\u003e\\u2028","b":null,"c":0.333333}')
    """
    text = json.dumps(_short(data), separators=(",", ":"), allow_nan=False)
    return Markup(re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    if hasattr(value, "item"):  # NumPy scalars
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None  # a screen has fewer than 10^6 pixels
    if isinstance(value, str):
        return _visible(value.encode("utf-8", "replace").decode())
    return value


def _anchors(report: Report) -> dict[tuple[str | int, ...], str]:
    """A name in the page's address for each part, by its place: ("figure", 2, 0) is the first of the third section."""
    taken = {"contents", "findings", "live", "main", "plotly", "plots", "theme"}

    def unique(*words: str) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-") or "part"
        numbered = (plain if copy == 1 else f"{plain}-{copy}" for copy in count(1))
        found = next(name for name in numbered if name not in taken)
        taken.add(found)
        return found

    anchors: dict[tuple[str | int, ...], str] = {}
    for i, section in enumerate(report.sections):  # chapters choose first: their links are passed on most
        anchors["section", i] = unique(section.id)
    for i, finding in enumerate(report.findings):
        anchors["finding", i] = unique(finding.name, finding.run)
    for i, section in enumerate(report.sections):
        anchors |= {("figure", i, j): unique(section.id, figure.id) for j, figure in enumerate(section.figures)}
        anchors |= {("table", i, j): unique(section.id, table.id) for j, table in enumerate(section.tables)}
        anchors |= {("example", i, j): unique(section.id, example.title) for j, example in enumerate(section.examples)}
    return anchors


def _policy(scripts: Iterable[str]) -> list[str]:
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    return [
        "default-src 'none'",
        "script-src " + " ".join(f"'sha256-{digest}'" for digest in hashes),
        "style-src 'unsafe-inline'",  # plotly sets styles
        "img-src data: blob:",  # and saves pictures
        "connect-src 'self'",  # `--watch` asks its own server for news
        "base-uri 'none'",
        "form-action 'none'",
    ]


def _prose(text: str) -> Markup:
    r"""Escaped text with names in backticks as code, and paragraphs where there are several.

    >>> _prose("raise `n` <now>")
    Markup('raise <code>n</code> &lt;now&gt;')
    """
    code = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(_visible(text))))
    paragraphs = [part for part in re.split(r"\n\s*\n", code.strip()) if part]
    return Markup("</p><p>".join(paragraphs))


def _visible(text: str) -> str:
    r"""Control characters as their pictures, which garbled rollouts are full of and HTML would swallow.

    >>> _visible("a\x00\tb\n\x1b[0m")
    'a␀\tb\n␛[0m'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda match: chr(0x2400 + min(ord(match[0]), 0x21)), text)


def _minus(shown: str) -> str:
    """A formatted number with a minus sign as wide as a plus, where words would keep their hyphen."""
    return shown.replace("-", "\N{MINUS SIGN}")


def _counts(findings: list[Finding]) -> str:
    """How many to act on and to watch.

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
    environment.filters |= {"number": number, "minus": _minus, "prose": _prose, "visible": _visible, "counts": _counts}
    environment.filters |= {"forest": forest, "has_data": _has_data}
    environment.globals |= {"column": column, "is_text": is_text}
    return environment


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    """The library as its package ships it; ``plotly.offline.get_plotlyjs`` reads the same file after a long import."""
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
