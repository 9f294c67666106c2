"""Defines a bench's cells. A cell is a single run, with its folder and the recipe keys that it overrides."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.bench.spec import FIRST_TUNING_SEED, Bench, FinalTest, Tune
from outrider.config import load_recipe, read_yaml, recipe_of_run
from outrider.errors import UserError
from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder

FINAL_TEST = "untouched"
"""Folder name of a measurement on the final test set. The name is kept from the first version of Outrider."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a bench.

    Attributes:
        label: name of the run in printed output.
        recipe: recipe file.
        overrides: overrides of recipe keys.
        path: run folder.
        seed: seed of the run.
        unit: unit of the training budget (tokens, steps or seconds).
        budget: training budget in ``unit``; with a budget of 0, the run only evaluates.
        measures: another run, whose final policy this run evaluates; None: this run evaluates the recipe's model.
    """

    label: str
    recipe: Path
    overrides: tuple[str, ...]
    path: Path
    seed: int
    unit: str = "steps"
    budget: float = 0
    measures: Cell | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """All overrides of recipe keys, including the key ``model`` if the run evaluates another run's policy."""
        if self.measures is None:
            return self.overrides
        return (*self.overrides, override("model", str(RunFolder(self.measures.path).model)))

    @property
    def log(self) -> Path:
        """File with the output of the run's process."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def begun(self) -> bool:
        return (self.path / "config.yaml").is_file()

    @property
    def ready(self) -> bool:
        """Whether the run can start. A run that evaluates another run's policy can start only when the other run has
        finished."""
        return self.measures is None or self.measures.finished

    @property
    def finished(self) -> bool:
        """Whether the run has finished. A run writes ``table.md`` last, so this file exists only after the run has
        finished.

        Raises:
            UserError: the folder contains a run with other settings.
        """
        if not ((self.path / "table.md").is_file() and self.ready):
            return False
        held = recipe_of_run(read_yaml((self.path / "config.yaml").read_text("utf-8"), str(self.path)))
        moved = [] if self.measures is None else [override("model", held.model)]  # the bench's folder may have moved
        if differences := held.difference(load_recipe(str(self.recipe), [*self.overrides, *moved])):
            raise UserError(
                f"{self.path} was run with other settings ({'; '.join(differences)}); move it elsewhere to continue"
            )
        return True

    def spent(self) -> float:
        """Return the part of the run's budget that has been used so far, in ``unit``."""
        return spent(self.path, self.unit)[-1][1] if self.budget and self.begun else 0.0


def spent(path: Path, unit: str) -> list[tuple[int, float]]:
    """Return a pair for each step of a run, starting with (0, 0): the step, and the budget spent by the end of the
    step, in ``unit``."""
    folder, steps = RunFolder(path), [(0, 0.0)]
    if unit == "seconds":
        for row in folder.timing():
            steps.append((int(row["step"]), steps[-1][1] + training_seconds(row)))
        return steps
    key = {"tokens": "tokens", "steps": "step"}[unit]
    return steps + [(int(row["step"]), row[key]) for row in folder.metrics()]


def recipe_file(out: Path, name: str) -> Path:
    """Return the path of the bench's copy of a recipe."""
    return out / "recipes" / f"{name}.yaml"


MEASURE_ONLY = ("train={tokens: null, steps: 0, seconds: null, evaluate_at: []}", "evaluate.before=true")


def cells_before(out: Path, bench: Bench) -> tuple[Cell, Cell]:
    """Return two runs that evaluate the policy before training; all recipes and seeds start from this policy.

    The second run uses another sampling seed, so that the difference between the two runs shows the effect of chance.
    """
    recipe = recipe_file(out, bench.base)
    other = override("evaluate.seed", load_recipe(str(recipe)).evaluate.seed + 1)
    return (
        Cell("before training", recipe, MEASURE_ONLY, out / "before", 0),
        Cell("before training, drawn again", recipe, (*MEASURE_ONLY, other), out / "before-again", 0),
    )


def cells_of(out: Path, bench: Bench, name: str, chosen: Mapping[str, Any]) -> list[Cell]:
    """Return a recipe's runs for the comparison, one per seed, with the tuned values ``chosen``."""
    tuned = [override(key, value) for key, value in chosen.items()]
    return [
        Cell(
            label=f"{name}, seed {seed}",
            recipe=recipe_file(out, name),
            overrides=(*tuned, *_seeded(out, name, seed)),
            path=out / "cells" / name / str(seed),
            seed=seed,
            unit=bench.unit,
            budget=bench.budget,
        )
        for seed in bench.compared_seeds
    ]


def tuning_cells(out: Path, bench: Bench, tune: Tune, name: str, values: Mapping[str, Any]) -> list[Cell]:
    """Return the runs that train the recipe ``name`` with the hyperparameters ``values`` (by dotted key), one run per
    tuning seed."""
    held = load_recipe(str(recipe_file(out, name))).evaluate.problems
    overrides = (
        *(override(key, value) for key, value in values.items()),
        f"train={{tokens: {tune.tokens}, steps: null, seconds: null, evaluate_at: []}}",
        f"evaluate={{problems: {tune.problems}, skip: {held}}}",
    )
    return [
        Cell(
            label=f"{name}, {', '.join(f'{key}={value}' for key, value in values.items())}, seed {seed}",
            recipe=recipe_file(out, name),
            overrides=(*overrides, *_seeded(out, name, seed)),
            path=out / "tuning" / name / _folder(values) / str(seed),
            seed=seed,
            unit="tokens",
            budget=tune.tokens,
        )
        for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tune.seeds)
    ]


def final_test_cells(
    bench: Bench, final_test: FinalTest, out: Path, trained: Mapping[str, Sequence[Cell]]
) -> tuple[Cell, dict[str, list[Cell]]]:
    """Return the runs that evaluate policies on the final test set: the policy before training, and the final policy of
    each run in ``trained``.

    The bench uses the problems of the final test set for nothing else. Each evaluation is stored inside the folder of
    the run whose policy is evaluated.
    """
    recipe = recipe_file(out, bench.base)
    skip = bench.final_test_from(load_recipe(str(recipe)).evaluate.problems)
    kept = (*MEASURE_ONLY, override("evaluate.problems", final_test.problems), override("evaluate.skip", skip))
    last = {
        name: [
            Cell(f"{run.label}, final test", run.recipe, kept, run.path / FINAL_TEST, run.seed, measures=run)
            for run in runs
        ]
        for name, runs in trained.items()
    }
    return Cell("before training, final test", recipe, kept, out / "before" / FINAL_TEST, 0), last


def _folder(values: Mapping[str, Any]) -> str:
    """Return a folder name built from values, sorted by key, so that the order of the keys does not matter.

    >>> _folder({"learn.minibatches": 4, "learn.lr": 5e-05})
    '5e-05+4'
    """
    return "+".join(str(values[key]) for key in sorted(values)).replace("/", "_")


def override(key: str, value: Any) -> str:
    """Return an override (``key=value``) that sets a dotted recipe key. The value is written as JSON, which is valid
    YAML.

    >>> override("learn.lr", 5e-05)
    'learn.lr=5e-05'
    """
    return f"{key}={json.dumps(value)}"


def in_turn(rows: Collection[Sequence[Cell]]) -> list[Cell]:
    """Return the first cell of every row, then the second cell of every row, and so on. An interrupted bench therefore
    has about the same number of runs for each recipe."""
    longest = max(map(len, rows), default=0)
    return [row[i] for i in range(longest) for row in rows if i < len(row)]


def _seeded(out: Path, name: str, seed: int) -> list[str]:
    """Return overrides that set the run's seed and, if the task has a seed for the order of problems, the task's
    seed."""
    data = read_yaml(recipe_file(out, name).read_text("utf-8"), name)
    [options] = data["task"].values()
    return [f"seed={seed}", *([f"task.seed={seed}"] if "seed" in options else [])]
