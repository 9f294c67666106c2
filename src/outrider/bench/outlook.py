"""Reads a bench's completed work, including evaluations, from disk, and forecasts the remaining time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.bench.cell import Cell
from outrider.config import load_recipe
from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder


@dataclass(slots=True)
class _Work:
    """The progress of one run.

    Attributes:
        cell: the run.
        evaluations: planned number of evaluations.
        responses: number of responses in each evaluation.
        spent: part of the run's budget that has been spent so far; never more than the whole budget.
        training: seconds of training so far.
        evaluated: number of completed evaluations.
        timed: number of evaluations with a known duration.
        evaluating: total seconds of the ``timed`` evaluations.
        over: whether the run has finished or failed, so that no work remains.
    """

    cell: Cell
    evaluations: int
    responses: int
    spent: float = 0.0
    training: float = 0.0
    evaluated: int = 0
    timed: int = 0
    evaluating: float = 0.0
    over: bool = False


class Outlook:
    """The completed work of a bench, and a forecast of the remaining time.

    All rates are computed from the times that the runs record on disk (``timing.jsonl``, ``eval_timing.jsonl``), so a
    continued bench has a forecast immediately. The number of seconds per unit of budget is computed separately for each
    recipe. The mean over all recipes is used for a recipe of which no run has trained yet. The expected duration of an
    evaluation is its number of responses times the mean number of seconds per response. The remaining work is divided
    evenly among the processes, but takes at least as long as the longest remaining run.

    Assumes one process per run, and ``processes`` runs in parallel. Degenerate cases: the forecast is unknown until
    some training has been timed. If no evaluation has a known duration, as in runs of older Outrider versions,
    remaining evaluations count as 0 seconds.
    """

    def __init__(self, cells: Iterable[Cell], processes: int) -> None:
        self._processes = processes
        self._work: dict[Path, _Work] = {}
        self.add(cells)
        self._trains = any(work.cell.budget for work in self._work.values())

    def add(self, cells: Iterable[Cell]) -> None:
        """Add runs to the work."""
        for cell in cells:
            if cell.path not in self._work:
                recipe = load_recipe(str(cell.recipe), cell.overrides)
                points = len(recipe.train.evaluate_at) + recipe.evaluate.after if cell.budget else 1
                responses = recipe.evaluate.problems * (recipe.evaluate.n + recipe.evaluate.greedy)
                self._work[cell.path] = _Work(cell, points, responses)
                self.read([cell])

    def read(self, cells: Sequence[Cell]) -> None:
        """Update the progress of runs from disk."""
        for cell in cells:
            work, folder = self._work[cell.path], RunFolder(cell.path)
            if not cell.begun:
                continue
            work.spent = min(cell.spent(), cell.budget)
            work.training = sum(map(training_seconds, folder.timing()))
            work.evaluated = len(folder.evaluations())
            timed = [row["evaluate"] for row in folder.evaluation_timing()]
            work.timed, work.evaluating = len(timed), sum(timed)

    def end(self, cell: Cell, failed: bool = False) -> None:
        """Mark a run as over, because it has finished or failed."""
        self.read([cell])
        work = self._work[cell.path]
        work.over = True
        if not failed:
            work.spent, work.evaluated = cell.budget, work.evaluations

    @property
    def done(self) -> float:
        """The budget that all runs together have spent so far. If all runs only evaluate a policy, ``done`` is the
        number of runs that have finished or failed."""
        works = self._work.values()
        return sum(work.spent for work in works) if self._trains else float(sum(work.over for work in works))

    @property
    def total(self) -> float:
        """The budget of all runs together; a failed run counts only the budget that it spent. If all runs only evaluate
        a policy, ``total`` is the number of runs."""
        if not self._trains:
            return float(len(self._work))
        return sum(work.spent if work.over else work.cell.budget for work in self._work.values())

    def forecast(self) -> tuple[float, float] | None:
        """Return the completed share of the total time and the remaining seconds; None if they are unknown."""
        a_unit, a_response = self._unit_seconds(), self._response_seconds()
        if self._trains and not a_unit:
            return None
        done = left = longest = 0.0
        for work in self._work.values():
            unit = a_unit.get(work.cell.recipe, a_unit.get(None, 0.0))
            done += work.spent * unit + work.evaluated * work.responses * a_response
            if not work.over:
                training = (work.cell.budget - work.spent) * unit
                rest = training + max(work.evaluations - work.evaluated, 0) * work.responses * a_response
                left, longest = left + rest, max(longest, rest)
        if not done + left:
            return None
        return done / (done + left), max(left / self._processes, longest)

    def _unit_seconds(self) -> dict[Path | None, float]:
        """Return seconds per unit of budget for each recipe that has trained. The key None maps to the mean over all
        recipes."""
        spent: dict[Path | None, float] = defaultdict(float)
        seconds: dict[Path | None, float] = defaultdict(float)
        for work in self._work.values():
            for name in (work.cell.recipe, None):
                spent[name] += work.spent
                seconds[name] += work.training
        return {name: seconds[name] / spent[name] for name in spent if spent[name] and seconds[name]}

    def _response_seconds(self) -> float:
        works = self._work.values()
        responses = sum(work.timed * work.responses for work in works)
        return sum(work.evaluating for work in works) / responses if responses else 0.0
