"""Writes the report's first sentence, which calls exploration alive, narrowing, at risk, failing or unknown. It depends
on the problems that checks found in the run, and on pass@k."""

from __future__ import annotations

import math

from outrider.measure import Interval
from outrider.report.content import Finding
from outrider.report.digits import percent, points
from outrider.report.findings import Examined

ON_EXPLORATION = ("entropy collapse", "coverage narrowing", "dead prompts", "saturation", "duplicates")
"""Checks that concern exploration; all other checks concern learning, the verifier or the data."""

DECISIVE = ("entropy collapse", "coverage narrowing")
"""Exploration counts as alive only if one of these checks was run, or if pass@k before and after training is known."""


_CANNOT = "The state of exploration is unknown"
_NEED = ("needs", "need")


def headline(examined: Examined, change: tuple[int, Interval] | None) -> str:
    r"""Return a sentence on the state of exploration, based on the checks and on pass@k.

    Args:
        examined: result of all checks.
        change: the maximum k, and the change of pass@k from the first to the last evaluation, paired by problem. None
            if there are no two evaluations on the same problems.

    Degenerate case: no check in ``DECISIVE`` could be run, and ``change`` is None. The sentence then begins with "The
    state of exploration is unknown", and a paragraph with the reason follows.

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
    """Return the sentence for a run with findings. ``found`` begins with the most severe finding."""
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
    """Return a sentence on the decisive checks that could not be run, and on the data that these checks need."""
    needs: dict[str, list[str]] = {}
    for name in DECISIVE:
        if name in examined.skipped:
            needs.setdefault(examined.skipped[name], []).append(name)
    if not needs:
        return "No check of exploration could be made."
    each = (f"{' and '.join(names)}, which {_NEED[len(names) > 1]} {why}" for why, names in needs.items())
    return f"Not checked: {'; '.join(each)}."


def _others(findings: list[Finding]) -> str:
    """Return a sentence on findings of severity ``act`` that do not concern exploration; "" if there are none."""
    names = [one.name for one in findings if one.severity == "act" and one.name not in ON_EXPLORATION]
    return f" Other findings to act on: {', '.join(names)}." if names else ""
