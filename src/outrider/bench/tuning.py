"""Choosing a value for each recipe, by the same budget and on problems that the comparison does not use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.bench.crossed import Estimate, Measured, estimate
from outrider.bench.results import Arm
from outrider.bench.spec import Tune


@dataclass(frozen=True)
class Tried:
    """What one value gave.

    Attributes:
        value: of the tuned key.
        scores: the criterion, and the numbers that stand beside it in the table.
        failed: runs that did not finish; such a value is not chosen.
    """

    value: Any
    scores: Mapping[str, Estimate]
    failed: int


@dataclass(frozen=True)
class Choice:
    """All values of one recipe, and which was best.

    Attributes:
        tried: in the order in which they were given.
        chosen: its place among them; None if every value failed.
    """

    tried: tuple[Tried, ...]
    chosen: int | None

    @property
    def value(self) -> Any:
        assert self.chosen is not None
        return self.tried[self.chosen].value

    @property
    def at_edge(self) -> bool:
        """Whether the best value is the first or the last: one beyond it may be better."""
        return self.chosen in (0, len(self.tried) - 1)


def tried(tune: Tune, value: Any, arm: Arm | None) -> Tried:
    """The scores of a value from its finished runs."""
    if arm is None:
        return Tried(value, {}, tune.seeds)
    point, largest = arm.end, arm.ks[-1]
    shown = {name: point.measured(name) for name in ("pass@1", f"pass@{largest}", "entropy")}
    scores = {name: estimate(measured) for name, measured in shown.items()}
    return Tried(value, {"criterion": estimate(_criterion(tune, arm)), **scores}, tune.seeds - len(arm.seeds))


def choose(options: Sequence[Tried]) -> Choice:
    """The value with the largest criterion; of equal ones the first given. A value with a failed run is passed over."""
    ranks = [-math.inf if t.failed else t.scores["criterion"].value for t in options]
    best = max(ranks)
    return Choice(tuple(options), None if best == -math.inf else ranks.index(best))


def _criterion(tune: Tune, arm: Arm) -> Measured:
    """pass@1 by default: it is what training is for, and no training at all does not win, as it would by pass@n."""
    one, many = arm.end.measured("pass@1"), arm.end.measured(f"pass@{arm.ks[-1]}")
    if tune.by == "pass@1":
        return one
    if tune.by == "pass@n":
        return many
    known = one.counts_SP * many.counts_SP
    return Measured((one.totals_SP + many.totals_SP) / 2 * known, known)
