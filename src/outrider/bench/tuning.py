"""Chooses hyperparameters for each recipe, with equal budgets and on problems that the comparison does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.bench.crossed import Estimate, difference, estimate
from outrider.bench.results import Arm, Measured
from outrider.bench.spec import Tune


@dataclass(frozen=True)
class Tried:
    """The scores of one combination of hyperparameter values.

    Attributes:
        values: tuned values by key.
        criterion: estimate of the selection metric; None if no run finished.
        shown: estimates of the metrics that the table shows in addition to ``criterion``.
        failed: number of runs that did not finish; a combination with failed runs is not chosen.
    """

    values: Mapping[str, Any]
    criterion: Measured | None
    shown: Mapping[str, Estimate]
    failed: int

    @property
    def scores(self) -> Mapping[str, Estimate]:
        """Estimates of the selection metric (``criterion``) and of all other shown metrics."""
        return {} if self.criterion is None else {"criterion": estimate(self.criterion), **self.shown}


@dataclass(frozen=True)
class Choice:
    """All combinations of values tried for one recipe, and the chosen combination.

    Attributes:
        tried: tried combinations, in the order of ``Tune.candidates``.
        chosen: index of the chosen combination; None if every combination failed.
        edges: first and last tried value of every key with at least two values; values outside this range were not
            tried and may be better.
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
        """Keys whose chosen value is the first or the last of the tried values."""
        return [key for key, ends in self.edges.items() if self.values[key] in ends]


def tried(tune: Tune, values: Mapping[str, Any], arm: Arm | None) -> Tried:
    """Return the scores of a combination of values from its finished runs."""
    if arm is None:
        return Tried(values, None, {}, tune.seeds)
    point, largest = arm.end, arm.ks[-1]
    shown = {name: estimate(point.measured(name)) for name in ("pass@1", f"pass@{largest}", "entropy")}
    return Tried(values, _criterion(tune, arm), shown, tune.seeds - len(arm.seeds))


def choose(tune: Tune, options: Sequence[Tried]) -> Choice:
    """Choose the first combination whose score is at most one standard error below the best score. The standard error
    is that of the paired difference between the two scores.

    If the user lists learning rates in ascending order, the rule selects a larger learning rate only if its score is
    clearly better. (A larger learning rate reduces the policy's diversity more.) The rule is Breiman et al.'s
    one-standard-error rule for pruning trees (1984). Combinations with a failed run are skipped.
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
    """Return the metric by which hyperparameters are chosen (``tune.by``). pass@n can favour hyperparameters with which
    training hardly changes the policy, such as a very small learning rate."""
    one, many = arm.end.measured("pass@1"), arm.end.measured(f"pass@{arm.ks[-1]}")
    if tune.by == "pass@1":
        return one
    if tune.by == "pass@n":
        return many
    known = one.counts_SP * many.counts_SP
    return Measured((one.totals_SP + many.totals_SP) / 2 * known, known)
