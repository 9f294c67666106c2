"""How the map's page writes an estimate of a bench, from the JSON that the bench left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.bench.crossed import Estimate
from outrider.bench.tables import NONE, as_change, as_number

Results = Mapping[str, Any]


def largest(found: Results) -> str:
    """The name of pass@k with all samples of an evaluation.

    >>> largest({"before": {"pass@1": 0.1, "pass@8": 0.4, "pass@64": 0.8, "entropy": 0.2}})
    'pass@64'
    """
    names: list[str] = [name for name in found["before"] if name.startswith("pass@")]
    return max(names, key=lambda name: int(name[5:]))


def at(estimate: Results) -> str:
    """The value alone: which of these differ is said by the changes."""
    return as_number(read(estimate)._replace(low=math.nan, high=math.nan), "")


def change(estimate: Results) -> str:
    """With its interval, bold where that excludes 0."""
    return as_change(read(estimate))


def pair(recipe: str, found: Results) -> tuple[float, int]:
    """Learning rate, and updates of the optimizer in a step: each epoch has as many as there are minibatches.

    >>> chosen = {"learn.lr": 0.0002, "learn.minibatches": 4}
    >>> pair("dars-hw-breadth", {"tuned": {"dars-hw-breadth": {"chosen": chosen}}, "epochs": {"dars-hw-breadth": 2}})
    (0.0002, 8)
    """
    chosen = found["tuned"][recipe]["chosen"]
    return chosen["learn.lr"], chosen["learn.minibatches"] * found["epochs"][recipe]


def written(values: tuple[float, int]) -> tuple[str, str]:
    """A pair in a table.

    >>> written((0.0002, 1)), written((2.4e-4, 8))
    (('2e-4', '1'), ('2.4e-4', '8'))
    """
    digits, exponent = f"{values[0]:.1e}".split("e")
    return f"{float(digits):g}e{int(exponent)}", str(values[1])


def read(estimate: Results) -> Estimate:
    """As the bench had it, where JSON has null for NaN."""
    return Estimate._make(math.nan if estimate[name] is None else estimate[name] for name in Estimate._fields)


def together(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of several estimates of one change, weighed by the inverse squares of their intervals.

    They share neither seeds nor problems. One alone is as it was, and of none nothing is known.

    >>> found = together([Estimate(0.03, 0.02, 0.04, 5, 300), Estimate(0.01, -0.01, 0.03, 5, 300)])
    >>> round(found.value, 3), round(found.high - found.value, 4)
    (0.026, 0.0089)
    """
    if not estimates:
        return Estimate(math.nan, math.nan, math.nan, 0, 0)
    if len(estimates) == 1:
        return estimates[0]
    weights = [4 / (each.high - each.low) ** 2 for each in estimates]
    value = sum(weight * each.value for weight, each in zip(weights, estimates, strict=True)) / sum(weights)
    half = sum(weights) ** -0.5
    seeds, problems = sum(each.seeds for each in estimates), sum(each.problems for each in estimates)
    return Estimate(value, value - half, value + half, seeds, problems)


def untouched_change(recipe: str, benches: Sequence[Results], quantity: str) -> Estimate:
    """From GRPO's on the untouched problems, of several benches together; NaN where none has measured it there."""
    kept = [found["untouched"] for found in benches if found["untouched"] and recipe in found["untouched"]["recipes"]]
    return together([read(each["recipes"][recipe]["minus_base"][quantity]) for each in kept])


def untouched_levels(found: Results, quantity: str) -> tuple[str, str]:
    """Of the base and of GRPO on the untouched problems; dashes where they were not measured."""
    kept = found["untouched"]
    return (at(kept["before"][quantity]), at(kept["recipes"]["grpo"]["end"][quantity])) if kept else (NONE, NONE)


def as_grpo(recipe: str, benches: Sequence[Results]) -> bool:
    """Whether it was compared at GRPO's own learning rate and updates a step."""
    return pair(recipe, benches[0]) == pair("grpo", benches[0])


def class_changes(recipe: str, benches: Sequence[Results]) -> Results:
    """From GRPO's pass@1 by the base's pass rate; of several benches, on the same problems, that with most seeds."""
    found = max(benches, key=lambda each: int(each["bench"]["seeds"]))
    told: Results = found["recipes"][recipe]["by_rate_before_minus_base"]
    return told
