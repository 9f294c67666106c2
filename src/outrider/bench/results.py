"""The measurements of a bench's runs as arrays, with one row per seed and one column per problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from outrider.arrays import Floats
from outrider.bench.cell import Cell, spent
from outrider.bench.spending import Spending, spending
from outrider.errors import UserError
from outrider.measure.evaluation import Evaluation, pass_values
from outrider.measure.passk import shown_ks
from outrider.measure.tally import Tally
from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder


class Measured(NamedTuple):
    """The values of a metric for each seed and problem, each stored as a sum and a count.

    A seed's value is the sum of totals over problems, divided by the sum of counts. For a mean over problems, an entry
    of ``counts_SP`` is 1 if the value is known, otherwise 0. For entropy per token, ``counts_SP`` is the number of
    tokens.
    """

    totals_SP: Floats
    counts_SP: Floats


@dataclass(frozen=True)
class Point:
    """The evaluations of all seeds of a recipe after the same share of the training budget.

    Attributes:
        share: share of the budget, from 0 to 1.
        evaluations: one evaluation per seed, on the same problems in the same order.
        steps, tokens, seconds: numbers of steps, tokens and seconds that each seed's run has used up to this point.
    """

    share: float
    evaluations: tuple[Evaluation, ...]
    steps: tuple[int, ...]
    tokens: tuple[float, ...]
    seconds: tuple[float, ...]

    def measured(self, quantity: str) -> Measured:
        """Return the values of a metric: ``pass@<k>``, ``greedy`` or ``entropy`` per problem, or ``steps``, ``tokens``
        or ``seconds`` per run."""
        if quantity in ("steps", "tokens", "seconds"):
            column = np.array(getattr(self, quantity), dtype=np.float64)[:, None]
            return Measured(column, np.ones_like(column))
        rows = [_row(quantity)(evaluation.tallies) for evaluation in self.evaluations]
        return Measured(np.array([totals for totals, _ in rows]), np.array([counts for _, counts in rows]))


@dataclass(frozen=True)
class Arm:
    """All finished runs of one recipe.

    Attributes:
        name: name of the recipe.
        seeds: seeds of the finished runs, ascending.
        points: evaluations during training; the last one is at the end of the budget.
        spent: how the generated tokens of all runs were used, such as the share that was not trained on; None for the
            policy before training.
    """

    name: str
    seeds: tuple[int, ...]
    points: tuple[Point, ...]
    spent: Spending | None = None

    @property
    def end(self) -> Point:
        return self.points[-1]

    @cached_property
    def ks(self) -> tuple[int, ...]:
        """The values of k for which pass@k is shown: 1, 8 and the number of samples per problem."""
        return tuple(shown_ks(self.end.evaluations[0].overall.pass_at))

    def only(self, seeds: Sequence[int]) -> Arm:
        """Return a copy with only the runs of the given seeds."""
        rows = [self.seeds.index(seed) for seed in seeds]
        parts = ("evaluations", "steps", "tokens", "seconds")
        points = [
            Point(p.share, *(tuple(getattr(p, part)[row] for row in rows) for part in parts)) for p in self.points
        ]
        return Arm(self.name, tuple(seeds), tuple(points), self.spent)


class Measurements(NamedTuple):
    """Measurements on one set of problems.

    Attributes:
        before: evaluation of the policy before training.
        again: second evaluation of the policy before training, with different samples.
        arms: recipes with finished runs.
    """

    before: Arm
    again: Arm
    arms: tuple[Arm, ...]


def read_measurements(
    before: tuple[Cell, Cell], trained: Mapping[str, Sequence[Cell]], shares: Sequence[float]
) -> Measurements:
    """Read the measurements of the policy before training, and of all recipes at the given shares of the budget.

    Raises:
        UserError: the policy before training was not measured, or a recipe's runs were measured on different problems.
    """
    first, again = (read_arm("before training", [cell], [0.0]) for cell in before)
    if first is None or again is None:
        raise UserError(f"{before[first is not None].path} holds no evaluation")
    arms = [read_arm(name, cells, shares) for name, cells in trained.items()]
    return Measurements(first, again, tuple(arm for arm in arms if arm is not None))


def read_arm(name: str, cells: Sequence[Cell], shares: Sequence[float]) -> Arm | None:
    """Read the finished runs of a recipe. Return None if no run has finished.

    Raises:
        UserError: two runs were measured on different problems.
    """
    done = [cell for cell in cells if cell.finished]
    if not done:
        return None
    measured = [_measured_at(cell, shares) for cell in done]
    points = [Point(share, *zip(*(rows[i] for rows in measured), strict=True)) for i, share in enumerate(shares)]
    for point in points:
        for cell, evaluation in zip(done, point.evaluations, strict=True):
            if problems(evaluation) != problems(points[0].evaluations[0]):
                raise UserError(f"{cell.path} was evaluated on other problems than {done[0].path}")
    steps = [row for cell in done for row in RunFolder(cell.path).metrics()]
    return Arm(name, tuple(cell.seed for cell in done), tuple(points), spending(steps) if steps else None)


def along(before: Arm, arm: Arm, k: int) -> Floats:
    """Return pass@k during training, starting with the policy before training. The shape is ``[points, S, P]`` (S
    seeds, P problems), and unknown values are NaN."""
    return values_of((*before.points, *arm.points), k)


def values_of(points: Sequence[Point], k: int) -> Floats:
    """Return pass@k of the evaluations ``points``, with shape ``[points, S, P]`` (S seeds, P problems). Unknown values
    are NaN."""
    results = [point.measured(f"pass@{k}") for point in points]
    return np.stack(np.broadcast_arrays(*(np.where(m.counts_SP > 0, m.totals_SP, np.nan) for m in results)))


def problems(evaluation: Evaluation) -> list[str]:
    """Return the problem ids of an evaluation, in the evaluation's order."""
    return [tally.problem for tally in evaluation.tallies]


def _measured_at(cell: Cell, shares: Sequence[float]) -> list[tuple[Evaluation, int, float, float]]:
    """Return the run's first evaluation at or after each share of the budget, with its step, tokens and seconds."""
    folder = RunFolder(cell.path)
    evaluations = {step: Evaluation.from_json(data) for step, data in folder.evaluations().items()}
    used = dict(spent(cell.path, cell.unit))
    tokens = {0: 0.0} | {int(row["step"]): row["tokens"] for row in folder.metrics()}
    clock = {int(row["step"]): training_seconds(row) for row in folder.timing()}
    results = []
    for share in shares:
        last = max(evaluations)  # by the recorded times, a run may end slightly before its budget in seconds
        step = min((s for s in evaluations if used[s] >= share * cell.budget), default=last)
        seconds = sum(taken for s, taken in clock.items() if s <= step)
        results.append((evaluations[step], step, tokens[step], seconds))
    return results


def _row(quantity: str) -> Callable[[Sequence[Tally]], tuple[Floats, Floats]]:
    def entropy(tallies: Sequence[Tally]) -> tuple[Floats, Floats]:
        return (
            np.array([t.entropy_sum for t in tallies], dtype=np.float64),
            np.array([t.entropy_tokens for t in tallies], dtype=np.float64),
        )

    def mean(tallies: Sequence[Tally]) -> tuple[Floats, Floats]:
        if quantity == "greedy":
            values = np.array([t.greedy for t in tallies], dtype=np.float64)
        else:
            values = pass_values(tallies, int(quantity.removeprefix("pass@")))
        known = ~np.isnan(values)
        return np.where(known, values, 0.0), known.astype(np.float64)

    return entropy if quantity == "entropy" else mean
