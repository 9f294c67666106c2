"""Computes the results of a bench (a comparison of recipes)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from outrider.bench.course import on_the_way, turned
from outrider.bench.crossed import Estimate, difference, estimate
from outrider.bench.equal import Equal, EqualSpent, at_equal, at_equal_pass1
from outrider.bench.rates import by_rate, of_problems
from outrider.bench.results import Arm, Measured, Point, problems
from outrider.bench.spec import Bench
from outrider.bench.tuning import Choice
from outrider.errors import UserError
from outrider.record.json_data import json_data

SCHEMA_VERSION = 4
"""Version of the results file. Version 3 has no final test set. Version 2 also lacks pass@1 by pass rate before
training. Version 1 has only one tuned key: each candidate has a `value`, and `chosen` is the chosen value."""
_NOTHING = Estimate(math.nan, math.nan, math.nan, 0, 0)


class Reached(NamedTuple):
    """The cost after which a recipe's pass@1 (mean over seeds) first reaches the base recipe's final pass@1. All fields
    are NaN if the recipe never reaches it."""

    share: float
    steps: float
    tokens: float
    seconds: float


@dataclass(frozen=True)
class BenchReport:
    """A bench and its measurements.

    Attributes:
        bench: options of the bench.
        before: evaluation of the policy before training.
        again: second evaluation of the policy before training, with new samples.
        arms: recipes with finished runs, in the order of ``bench.recipes``.
        choices: the tried and the chosen hyperparameter values by recipe.
        failures: one sentence for each run that did not finish.
        final_test: measurements of each run's final policy on the final test set; None if the bench has no final test
            set. In ``final_test``, ``again`` equals ``before``.
    """

    bench: Bench
    before: Arm
    again: Arm
    arms: tuple[Arm, ...]
    choices: Mapping[str, Choice]
    failures: tuple[str, ...]
    final_test: BenchReport | None = None

    def __post_init__(self) -> None:
        expected = problems(self.before.end.evaluations[0])
        for arm in (self.again, *self.arms):
            if problems(arm.end.evaluations[0]) != expected:
                raise UserError(f"{arm.name} was evaluated on other problems than the policy before training")

    @property
    def policy(self) -> list[str]:
        """Names of the metrics that are measured on held-out problems, as opposed to the costs of a run."""
        return [*(f"pass@{k}" for k in self.before.ks), "greedy", "entropy"]

    @property
    def quantities(self) -> list[str]:
        return [*self.policy, "tokens", "steps", "seconds"]

    @property
    def base(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.name == self.bench.base), None)

    def value(self, arm: Arm, quantity: str, point: int = -1) -> Estimate:
        """Return a metric's mean over seeds in the evaluation with index ``point`` (default: the last evaluation)."""
        return estimate(arm.points[point].measured(quantity))

    def against_base(self, arm: Arm, quantity: str) -> Estimate:
        """Return the difference in a metric at the end of training, ``arm`` minus the base recipe, paired by seed and
        problem. Only seeds that both recipes finished count; NaN if there are none."""
        both = self._paired(arm)
        return difference(*(side.end.measured(quantity) for side in both)) if both else _NOTHING

    def at_equal_pass1(self, arm: Arm, k: int) -> Equal:
        """Return the difference in pass@k, ``arm`` minus the base recipe, at the highest pass@1 that both recipes
        reach."""
        both = self._paired(arm)
        return at_equal_pass1(self.before, *both, k) if both else Equal(math.nan, _NOTHING)

    @property
    def other(self) -> Literal["steps", "tokens"]:
        """The unit for comparing recipes at equal cost: tokens if the budget is in steps, otherwise steps."""
        return "tokens" if self.bench.unit == "steps" else "steps"

    def at_equal_other(self, arm: Arm, k: int) -> EqualSpent:
        """Return the difference in pass@k, ``arm`` minus the base recipe, after equal numbers of steps. If the budget
        is in steps, the difference is after equal numbers of tokens instead."""
        both = self._paired(arm)
        return at_equal(self.other, *both, k) if both else EqualSpent(math.nan, _NOTHING)

    def _paired(self, arm: Arm) -> tuple[Arm, Arm] | None:
        """Return the base recipe and ``arm``, with only the seeds that both have finished; None if there are no common
        seeds."""
        base = self.base
        shared = [seed for seed in arm.seeds if base is not None and seed in base.seeds]
        return None if base is None or not shared else (base.only(shared), arm.only(shared))

    def against_before(self, arm: Arm, quantity: str) -> Estimate:
        """Return the change in a metric from before training to the end of training, paired by problem. All seeds start
        from the same policy."""
        after, start = arm.end.measured(quantity), self.before.end.measured(quantity)
        same = Measured(*(np.repeat(part, len(arm.seeds), axis=0) for part in start))
        return difference(same, after)

    def on_the_way(self, arm: Arm) -> Estimate:
        """Return the mean pass@1 during training (the area under the pass@1 curve divided by the budget), averaged over
        seeds."""
        return estimate(on_the_way(self.before, arm, 1))

    def on_the_way_against_base(self, arm: Arm) -> Estimate:
        """Return the difference in mean pass@1 during training (:meth:`on_the_way`), ``arm`` minus the base recipe,
        paired by seed and problem."""
        both = self._paired(arm)
        return difference(*(on_the_way(self.before, side, 1) for side in both)) if both else _NOTHING

    def turned(self, arm: Arm) -> dict[str, Estimate]:
        """Return the share of problems that became solved during training, and the share that became unsolved. A
        problem counts as solved if at least one sample succeeded."""
        one = self.before.end
        first = replace(one, evaluations=one.evaluations * len(arm.seeds))
        return {name: estimate(each) for name, each in turned(first, arm.end)._asdict().items()}

    def by_rate(self, arm: Arm) -> dict[str, Estimate]:
        """Return pass@1 at the end of training for each class of problems, such as those that were never solved before
        training."""
        measured = arm.end.measured("pass@1")
        return {name: estimate(of_problems(measured, chosen_P)) for name, chosen_P in by_rate(self.before.end).items()}

    def by_rate_against_base(self, arm: Arm) -> dict[str, Estimate]:
        """Return the difference in pass@1, ``arm`` minus the base recipe, for each class of problems in
        :meth:`by_rate`. The difference is NaN if there are no common seeds."""
        classes, both = by_rate(self.before.end), self._paired(arm)
        if both is None:
            return dict.fromkeys(classes, _NOTHING)
        sides = [side.end.measured("pass@1") for side in both]
        return {name: difference(*(of_problems(s, chosen_P) for s in sides)) for name, chosen_P in classes.items()}

    def reached(self, arm: Arm) -> Reached:
        """Return the cost after which ``arm`` first reaches the base recipe's final pass@1, interpolated linearly
        between evaluations."""
        nowhere = Reached(math.nan, math.nan, math.nan, math.nan)
        if self.base is None:
            return nowhere
        goal = self.value(self.base, "pass@1").value
        curve = [_place(self.before.end), *map(_place, arm.points)]
        heights = [self.value(self.before, "pass@1").value]
        heights += [self.value(arm, "pass@1", i).value for i in range(len(arm.points))]
        for i, height in enumerate(heights):
            if height >= goal:
                if i == 0:
                    return curve[0]
                along = (goal - heights[i - 1]) / (height - heights[i - 1])
                pairs = zip(curve[i - 1], curve[i], strict=True)
                return Reached(*(a + along * (b - a) for a, b in pairs))
        return nowhere

    def to_json(self) -> dict[str, Any]:
        """Return every estimate as plain data; NaN becomes null."""
        results = {
            "schema_version": SCHEMA_VERSION,
            "bench": self.bench.model_dump(mode="json"),
            "before": {q: self.value(self.before, q) for q in self.policy},
            "before_again": {q: self.value(self.again, q) for q in self.policy},
            "problems_turned_by_chance": self.turned(self.again),
            "by_rate_before": self.by_rate(self.again),
            "recipes": {arm.name: self._of_arm(arm) for arm in self.arms},
            "tuning": {name: _of_choice(choice) for name, choice in self.choices.items()},
            "failures": self.failures,
            "untouched": self.final_test and self.final_test._ends(),  # the key since the first version
        }
        return dict(json_data(results))

    def _ends(self) -> dict[str, Any]:
        """Return every recipe's metrics at the end of training, and their changes from the base recipe."""
        recipes = {}
        for arm in self.arms:
            ends = {q: self.value(arm, q) for q in self.policy}
            changes = {q: self.against_base(arm, q) for q in self.policy}
            recipes[arm.name] = {"seeds": arm.seeds, "end": ends, "minus_base": changes}
        return {"before": {q: self.value(self.before, q) for q in self.policy}, "recipes": recipes}

    def _of_arm(self, arm: Arm) -> dict[str, Any]:
        points = [
            {"share": p.share} | {q: self.value(arm, q, i) for q in self.quantities} for i, p in enumerate(arm.points)
        ]
        return {
            "seeds": arm.seeds,
            "points": points,
            "minus_base": {q: self.against_base(arm, q) for q in self.policy},
            "minus_base_at_equal_pass@1": {
                f"pass@{k}": one.change._asdict() | {"at_pass@1": one.pass1}
                for k, one in ((k, self.at_equal_pass1(arm, k)) for k in self.before.ks if k > 1)
            },
            f"minus_base_at_equal_{self.other}": {
                f"pass@{k}": one.change._asdict() | {f"at_{self.other}": one.spent}
                for k, one in ((k, self.at_equal_other(arm, k)) for k in self.before.ks)
            },
            "minus_before": {q: self.against_before(arm, q) for q in self.policy},
            "spent": arm.spent,
            "reached_pass@1_of_base": self.reached(arm),
            "pass@1_on_the_way": self.on_the_way(arm),
            "pass@1_on_the_way_minus_base": self.on_the_way_against_base(arm),
            "problems_turned": self.turned(arm),
            "by_rate_before": self.by_rate(arm),
            "by_rate_before_minus_base": self.by_rate_against_base(arm),
        }

    def to_csv(self) -> str:
        """Return one CSV row per evaluation of a run, without times, so that identical benches give identical files."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["recipe", "seed", "share", "steps", "tokens", *self.policy])
        for arm in [self.before, *self.arms]:
            for seed in arm.seeds:
                for p in arm.only([seed]).points:
                    values = [estimate(p.measured(q)).value for q in self.policy]
                    writer.writerow([arm.name, seed, p.share, p.steps[0], int(p.tokens[0]), *values])
        return text.getvalue()


def _place(point: Point) -> Reached:
    means = (float(np.mean(numbers)) for numbers in (point.steps, point.tokens, point.seconds))
    return Reached(point.share, *means)


def _of_choice(choice: Choice) -> dict[str, Any]:
    tried = [{"values": t.values, "failed": t.failed, "scores": t.scores} for t in choice.tried]
    return {"tried": tried, "chosen": None if choice.chosen is None else choice.values}
