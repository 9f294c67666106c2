"""Choosing a value for each recipe, with the same budget and on problems that the comparison does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.bench.crossed import Estimate, Measured, difference, estimate
from outrider.bench.results import Arm
from outrider.bench.spec import Tune


@dataclass(frozen=True)
class Tried:
    """The result of one value.

    Attributes:
        value: of the tuned key.
        criterion: the number that decides; None if no run finished.
        shown: the other numbers in the table.
        failed: runs that did not finish; such a value is not chosen.
    """

    value: Any
    criterion: Measured | None
    shown: Mapping[str, Estimate]
    failed: int

    @property
    def scores(self) -> Mapping[str, Estimate]:
        """The criterion, and what stands beside it."""
        return {} if self.criterion is None else {"criterion": estimate(self.criterion), **self.shown}


@dataclass(frozen=True)
class Choice:
    """All values of one recipe, and which was taken.

    Attributes:
        tried: in the order in which they were given.
        chosen: the index of the chosen one; None if every value failed.
    """

    tried: tuple[Tried, ...]
    chosen: int | None

    @property
    def value(self) -> Any:
        assert self.chosen is not None
        return self.tried[self.chosen].value

    @property
    def at_edge(self) -> bool:
        """Whether it is the first or the last value: one beyond it may be better."""
        return self.chosen in (0, len(self.tried) - 1)


def tried(tune: Tune, value: Any, arm: Arm | None) -> Tried:
    """The scores of a value from its finished runs."""
    if arm is None:
        return Tried(value, None, {}, tune.seeds)
    point, largest = arm.end, arm.ks[-1]
    shown = {name: estimate(point.measured(name)) for name in ("pass@1", f"pass@{largest}", "entropy")}
    return Tried(value, _criterion(tune, arm), shown, tune.seeds - len(arm.seeds))


def choose(options: Sequence[Tried]) -> Choice:
    """The first value that is not worse than the best by more than one standard error of their paired difference.

    With learning rates in ascending order, noise then does not choose a larger one, which narrows the policy more. The
    rule is that of Breiman et al. 1984 for pruning trees. A value with a failed run is passed over.
    """
    whole = {place: t.criterion for place, t in enumerate(options) if t.criterion is not None and not t.failed}
    best = max(whole.values(), key=lambda criterion: estimate(criterion).value, default=None)
    chosen = next((place for place, one in whole.items() if best is not None and _as_good(one, best)), None)
    return Choice(tuple(options), chosen)


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
