"""Cells: the single runs of a bench, with their folders and overrides."""

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
"""The folder of a measurement on the final test set, as the first version named it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run.

    Attributes:
        label: its name on the screen.
        recipe: the file that it reads.
        overrides: its changes of the recipe.
        path: its run folder.
        seed: its seed.
        unit, budget: the budget of the run; with 0 it only measures.
        measures: the run whose last policy it measures instead of the recipe's model.
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
        """All changes of the recipe."""
        if self.measures is None:
            return self.overrides
        return (*self.overrides, override("model", str(RunFolder(self.measures.path).model)))

    @property
    def log(self) -> Path:
        """The output of the run's process."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def begun(self) -> bool:
        return (self.path / "config.yaml").is_file()

    @property
    def ready(self) -> bool:
        """Whether the run whose policy it measures is finished, if there is one."""
        return self.measures is None or self.measures.finished

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end; its table is the last file it writes.

        Raises:
            UserError: the folder holds a run with other settings.
        """
        if not ((self.path / "table.md").is_file() and self.ready):
            return False
        held = recipe_of_run(read_yaml((self.path / "config.yaml").read_text("utf-8"), str(self.path)))
        moved = [] if self.measures is None else [override("model", held.model)]  # with the bench's folder
        if differences := held.difference(load_recipe(str(self.recipe), [*self.overrides, *moved])):
            raise UserError(
                f"{self.path} was run with other settings ({'; '.join(differences)}); move it elsewhere to continue"
            )
        return True

    def spent(self) -> float:
        """How much of its budget the run has used so far."""
        return spent(self.path, self.unit)[-1][1] if self.budget and self.begun else 0.0


def spent(path: Path, unit: str) -> list[tuple[int, float]]:
    """Each step of a run with what had been spent after it, in ``unit``; (0, 0) first."""
    folder, steps = RunFolder(path), [(0, 0.0)]
    if unit == "seconds":
        for row in folder.timing():
            steps.append((int(row["step"]), steps[-1][1] + training_seconds(row)))
        return steps
    key = {"tokens": "tokens", "steps": "step"}[unit]
    return steps + [(int(row["step"]), row[key]) for row in folder.metrics()]


def recipe_file(out: Path, name: str) -> Path:
    """Where a bench keeps a recipe as it was at its beginning."""
    return out / "recipes" / f"{name}.yaml"


MEASURE_ONLY = ("train={tokens: null, steps: 0, seconds: null, evaluate_at: []}", "evaluate.before=true")


def cells_before(out: Path, bench: Bench) -> tuple[Cell, Cell]:
    """Measure the policy before training, which is the same for every recipe and seed, and once more with other draws:
    what differs between the two is chance."""
    recipe = recipe_file(out, bench.base)
    other = override("evaluate.seed", load_recipe(str(recipe)).evaluate.seed + 1)
    return (
        Cell("before training", recipe, MEASURE_ONLY, out / "before", 0),
        Cell("before training, drawn again", recipe, (*MEASURE_ONLY, other), out / "before-again", 0),
    )


def cells_of(out: Path, bench: Bench, name: str, chosen: Mapping[str, Any]) -> list[Cell]:
    """The runs of a recipe that are compared, one per seed, with the tuned values of keys."""
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
    """The runs that try values of keys for a recipe."""
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
    """Measure, on problems that are kept back, the policy before training, and the last policies of each recipe's runs.

    No setting was chosen by these problems, and no curve was watched on them. Each measurement lies in the run whose
    policy it measures, so that a run that is moved takes it along.
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
    """Values in the order of their keys' names, so that keys may be given in any.

    >>> _folder({"learn.minibatches": 4, "learn.lr": 5e-05})
    '5e-05+4'
    """
    return "+".join(str(values[key]) for key in sorted(values)).replace("/", "_")


def override(key: str, value: Any) -> str:
    """A dotted override that reads back as ``value``; JSON is YAML.

    >>> override("learn.lr", 5e-05)
    'learn.lr=5e-05'
    """
    return f"{key}={json.dumps(value)}"


def in_turn(rows: Collection[Sequence[Cell]]) -> list[Cell]:
    """The first of each row, then the second of each, …, so that an interrupted bench has some seeds of each recipe."""
    longest = max(map(len, rows), default=0)
    return [row[i] for i in range(longest) for row in rows if i < len(row)]


def _seeded(out: Path, name: str, seed: int) -> list[str]:
    """The seed of the draws, and of the order of the problems where the task has one."""
    data = read_yaml(recipe_file(out, name).read_text("utf-8"), name)
    [options] = data["task"].values()
    return [f"seed={seed}", *([f"task.seed={seed}"] if "seed" in options else [])]
