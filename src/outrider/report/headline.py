"""One sentence on exploration: alive, at risk, failing, or not known, from the findings and from pass@k."""

from __future__ import annotations

import math

from outrider.measure import Interval
from outrider.report.content import Finding
from outrider.report.digits import percent, points
from outrider.report.findings import Examined

ON_EXPLORATION = ("entropy collapse", "coverage narrowing", "dead prompts", "saturation", "duplicates")
"""The checks whose findings are on exploration; all others are on learning, on the verifier or on the data."""

DECISIVE = ("entropy collapse", "coverage narrowing")
"""Without one of these checks, and without pass@k before and after, nothing says that exploration is alive."""


_CANNOT = "The state of exploration is unknown"
_NEED = ("needs", "need")


def headline(examined: Examined, change: tuple[int, Interval] | None) -> str:
    r"""State of exploration, from the checks and pass@k.

    Args:
        examined: the result of all checks.
        change: the maximum k of the evaluations, and the paired change of pass@k from the first to the last; None
            without two evaluations of the same problems.

    Degenerate cases: a run of which no decisive check could be made and no change is known gets a sentence that begins
    with "The state of exploration is unknown", and after it a paragraph with the reason.

    >>> headline(Examined([], ["entropy collapse"], {}), (64, Interval(0.05, 0.02, 0.08, 300)))
    'Exploration is alive: the one check of it found no problem, and pass@64 rose by 5.0 points (95 % CI 2.0 to 8.0).'
    >>> headline(Examined([], ["truncation"], {"entropy collapse": "entropies"}), None)
    'The state of exploration is unknown.\n\nNot checked: entropy collapse, which needs entropies.'
    """
    found = [finding for finding in examined.findings if finding.name in ON_EXPLORATION]
    checked = [name for name in examined.checked if name in ON_EXPLORATION]
    if found:
        sentence = _of_findings(found)
    elif change is not None and change[1].high < 0:
        sentence = f"Exploration is narrowing: {_moved(*change)}, although no check fired."
    elif change is None and not any(name in DECISIVE for name in checked):
        return f"{_CANNOT}.{_others(examined.findings)}\n\n{_lacking(examined)}"
    else:
        made = "the one check of it" if len(checked) == 1 else f"the {len(checked)} checks of it" if checked else ""
        reasons = [f"{made} found no problem"] * bool(made) + ([] if change is None else [_moved(*change)])
        sentence = f"Exploration is alive: {', and '.join(reasons)}."
    return sentence + _others(examined.findings)


def _of_findings(found: list[Finding]) -> str:
    """The findings are sorted: the first is the worst."""
    state = "is failing" if found[0].severity == "act" else "is at risk"
    if len(found) == 1:
        return f"Exploration {state}: 1 finding, {found[0].name}."
    return f"Exploration {state}: {len(found)} findings, the most severe is {found[0].name}."


def _moved(k: int, change: Interval) -> str:
    if math.isnan(change.low):
        return f"pass@{k} changed by {points(change.value)}"
    if not change.excludes_zero:
        ends = f"95 % CI {100 * change.low:+.1f} to {100 * change.high:+.1f}"
        return f"pass@{k} did not change significantly ({points(change.value)}, {ends})"
    low, high = sorted((abs(change.low), abs(change.high)))
    size = percent(abs(change.value)).removesuffix(" %")
    moved = "rose" if change.value > 0 else "fell"
    return f"pass@{k} {moved} by {size} points (95 % CI {100 * low:.1f} to {100 * high:.1f})"


def _lacking(examined: Examined) -> str:
    """Decisive checks that could not be made, and their required data."""
    needs: dict[str, list[str]] = {}
    for name in DECISIVE:
        if name in examined.skipped:
            needs.setdefault(examined.skipped[name], []).append(name)
    if not needs:
        return "No check of exploration could be made."
    each = (f"{' and '.join(names)}, which {_NEED[len(names) > 1]} {why}" for why, names in needs.items())
    return f"Not checked: {'; '.join(each)}."


def _others(findings: list[Finding]) -> str:
    """A sentence on findings to act on that are not on exploration; "" without any."""
    names = [one.name for one in findings if one.severity == "act" and one.name not in ON_EXPLORATION]
    return f" Other findings to act on: {', '.join(names)}." if names else ""
