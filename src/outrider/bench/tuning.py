"""Choosing values of keys for each recipe, with the same budget and on problems that the comparison does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.bench.crossed import Estimate, difference, estimate
from outrider.bench.results import Arm, Measured
from outrider.bench.spec import Tune


@dataclass(frozen=True)
class Tried:
    """Scores of one combination of tuned values.

    Attributes:
        values: by key.
        criterion: the number that decides; None if no run finished.
        shown: the other numbers in the table.
        failed: runs that did not finish; such values are not chosen.
    """

    values: Mapping[str, Any]
    criterion: Measured | None
    shown: Mapping[str, Estimate]
    failed: int

    @property
    def scores(self) -> Mapping[str, Estimate]:
        """The criterion, and what stands beside it."""
        return {} if self.criterion is None else {"criterion": estimate(self.criterion), **self.shown}


@dataclass(frozen=True)
class Choice:
    """All that was tried for one recipe, and which was taken.

    Attributes:
        tried: in the order in which they were given.
        chosen: the index of the chosen one; None if every one failed.
        edges: the first and the last value of every key that has two or more; one beyond may be better.
    """

    tried: tuple[Tried, ...]
    chosen: int | None
    edges: Mapping[str, tuple[Any, Any]]

    @property
    def values(self) -> Mapping[str, Any]:
        assert self.chosen is not None
        return self.tried[self.chosen].values

    @property
    def at_edge(self) -> list[str]:
        """The keys whose chosen value is the first or the last of those that were tried."""
        return [key for key, ends in self.edges.items() if self.values[key] in ends]


def tried(tune: Tune, values: Mapping[str, Any], arm: Arm | None) -> Tried:
    """The scores of values from their finished runs."""
    if arm is None:
        return Tried(values, None, {}, tune.seeds)
    point, largest = arm.end, arm.ks[-1]
    shown = {name: estimate(point.measured(name)) for name in ("pass@1", f"pass@{largest}", "entropy")}
    return Tried(values, _criterion(tune, arm), shown, tune.seeds - len(arm.seeds))


def choose(tune: Tune, options: Sequence[Tried]) -> Choice:
    """The first that is not worse than the best by more than one standard error of their paired difference.

    With learning rates in ascending order, noise then does not choose a larger one, which narrows the policy more. The
    rule is that of Breiman et al. 1984 for pruning trees. Values with a failed run are passed over.
    """
    whole = {place: t.criterion for place, t in enumerate(options) if t.criterion is not None and not t.failed}
    best = max(whole.values(), key=lambda criterion: estimate(criterion).value, default=None)
    chosen = next((place for place, one in whole.items() if best is not None and _as_good(one, best)), None)
    edges = {key: (values[0], values[-1]) for key, values in tune.values.items() if len(values) > 1}
    return Choice(tuple(options), chosen, edges)


def _as_good(result: Measured, best: Measured) -> bool:
    behind = difference(result, best)
    return result is best or behind.value <= behind.error


def _criterion(tune: Tune, arm: Arm) -> Measured:
    """pass@1 by default: it is what training is for, and no training at all does not win, as it would by pass@n."""
    one, many = arm.end.measured("pass@1"), arm.end.measured(f"pass@{arm.ks[-1]}")
    if tune.by == "pass@1":
        return one
    if tune.by == "pass@n":
        return many
    known = one.counts_SP * many.counts_SP
    return Measured((one.totals_SP + many.totals_SP) / 2 * known, known)
