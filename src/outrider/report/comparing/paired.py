"""Compares two evaluations problem by problem: computes differences over all problems, per test set and per difficulty
level, and counts the problems that cause them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from outrider.errors import UserError
from outrider.measure import Change, Comparison, Evaluation, Interval, Tally, compare
from outrider.measure.compare import paired
from outrider.measure.decision import ERROR, Decision, decide, differences, holm, paired_p
from outrider.measure.evaluation import by_level, by_test_set
from outrider.report.comparing.cut_runs import ComparedRun

GREEDY = "greedy decoding"


class PartDifference(NamedTuple):
    """A paired difference on a part of the problems (a test set or a level).

    Attributes:
        kind: "test set" or "level".
        name: name of the part.
        what: the metric, which is "pass@1", "pass@k" for the largest common k, or "greedy decoding".
        p_value: p-value adjusted by Holm's method over all parts and metrics.
    """

    kind: str
    name: str
    what: str
    change: Interval
    p_value: float

    @property
    def significant(self) -> bool:
        return self.p_value < ERROR


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """Differences between two runs, the second minus the first, on their common problems.

    Attributes:
        first, other: names of the runs.
        overall: differences on all common problems, keyed by metric. The metrics are pass@1 and pass@k for the largest
            common k, or only greedy decoding if no response was sampled.
        decision: the difference in pass@1 (or in greedy decoding if no response was sampled), and counts of the
            problems that cause this difference.
        pairs: for each problem, the numbers of samples and successes of the first run and of the other run.
    """

    first: str
    other: str
    comparison: Comparison
    overall: dict[str, Interval]
    parts: list[PartDifference]
    decision: Decision
    pairs: list[tuple[Tally, Tally]]

    @property
    def sampled(self) -> bool:
        return GREEDY not in self.overall

    @property
    def leading(self) -> str:
        """The metric that ``decision`` compares."""
        return "pass@1" if self.sampled else GREEDY


def pair(first: str, before: Evaluation, other: str, after: Evaluation) -> PairedRuns:
    """Pair the evaluations of two runs or models.

    Degenerate case: if one evaluation was sampled and the other was decoded greedily, ``overall`` and ``parts`` are
    empty.

    Raises:
        UserError: the evaluations have no problem in common.
    """
    comparison = compare(before, after)
    pairs = paired(before, after)
    if not any(t.samples for pair in pairs for t in pair):
        pairs = [(_as_sample(b), _as_sample(a)) for b, a in pairs]
    return PairedRuns(
        first=first,
        other=other,
        comparison=comparison,
        overall=dict(_quantities(comparison.overall)),
        parts=_parts(comparison, pairs),
        decision=decide(pairs, after.resamples, after.seed),
        pairs=pairs,
    )


def paired_runs(first: ComparedRun, other: ComparedRun) -> PairedRuns | str:
    """Pair the last evaluations of two runs, or return a sentence with the reason why they cannot be paired."""
    for unknown in (first, other):
        if unknown.evaluation is None:
            return f"`{unknown.name}` has no evaluation, so the pair `{other.name}` and `{first.name}` is not compared."
    assert first.evaluation is not None
    assert other.evaluation is not None
    try:
        return pair(first.name, first.evaluation, other.name, other.evaluation)
    except UserError:
        return f"`{other.name}` and `{first.name}` have no problem in common, so no paired difference exists."


def _as_sample(tally: Tally) -> Tally:
    """Return a problem's counts, with the greedy response counted as the only sample."""
    known = not math.isnan(tally.greedy)
    return replace(tally, samples=1, scorable=int(known), successes=int(known and tally.greedy))


def _quantities(change: Change) -> Iterator[tuple[str, Interval]]:
    """Yield the known changes of pass@1 and of pass@k at the maximum k. If no pass@k was measured, yield the change of
    greedy success."""
    known = [k for k, interval in change.pass_at.items() if not math.isnan(interval.value)]
    for k in sorted({1, max(known, default=1)} & set(known)):
        yield f"pass@{k}", change.pass_at[k]
    if not change.pass_at and not math.isnan(change.greedy.value):
        yield GREEDY, change.greedy


def _parts(comparison: Comparison, pairs: Sequence[tuple[Tally, Tally]]) -> list[PartDifference]:
    """Return the differences by test set if there are at least two test sets, and by difficulty level if there are at
    least two levels."""
    before = [b for b, _ in pairs]
    found: list[PartDifference] = []
    for kind, changes, members in (
        ("test set", comparison.test_sets, by_test_set(before)),
        ("level", comparison.levels, by_level(before)),
    ):
        for change in changes if len(changes) > 1 else ():
            there = {tally.problem for tally in members.get(change.level, ())}
            own = [pair for pair in pairs if pair[0].problem in there]
            for what, interval in _quantities(change):
                k = int(what[5:]) if what != GREEDY else 1
                p_value = paired_p(differences(own, k))
                found.append(PartDifference(kind, change.level or "(none)", what, interval, p_value))
    adjusted = holm([part.p_value for part in found])
    return [part._replace(p_value=p) for part, p in zip(found, adjusted, strict=True)]
