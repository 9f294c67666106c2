"""Cells: the single runs of a bench, with their folders and overrides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.bench.spec import FIRST_TUNING_SEED, Bench, Tune
from outrider.config import load_recipe, read_yaml, recipe_of_run
from outrider.errors import UserError
from outrider.processes.clock import training_seconds
from outrider.runs.folder import RunFolder


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
        policy: what it measures instead of the recipe's model. A bench's folder may be moved, and this with it.
    """

    label: str
    recipe: Path
    overrides: tuple[str, ...]
    path: Path
    seed: int
    unit: str = "steps"
    budget: float = 0
    policy: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """All changes of the recipe."""
        return self.overrides if self.policy is None else (*self.overrides, override("model", str(self.policy)))

    @property
    def log(self) -> Path:
        """The output of the run's process."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def begun(self) -> bool:
        return (self.path / "config.yaml").is_file()

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end; its table is the last file it writes.

        Raises:
            UserError: the folder holds a run with other settings.
        """
        if not (self.path / "table.md").is_file():
            return False
        held = recipe_of_run(read_yaml((self.path / "config.yaml").read_text("utf-8"), str(self.path)))
        moved = [] if self.policy is None else [override("model", held.model)]
        if differences := held.difference(load_recipe(str(self.recipe), [*self.overrides, *moved])):
            raise UserError(f"{self.path} was run otherwise ({'; '.join(differences)}); move it elsewhere to go on")
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


def in_turn(rows: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The first of each row, then the second of each, …, so that an interrupted bench has some seeds of each recipe."""
    longest = max(map(len, rows), default=0)
    return [row[i] for i in range(longest) for row in rows if i < len(row)]


def _seeded(out: Path, name: str, seed: int) -> list[str]:
    """The seed of the draws, and of the order of the problems where the task has one."""
    data = read_yaml(recipe_file(out, name).read_text("utf-8"), name)
    [(task, options)] = data["task"].items()
    return [f"seed={seed}", *([f"task.{task}.seed={seed}"] if "seed" in options else [])]
