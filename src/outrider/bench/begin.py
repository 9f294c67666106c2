"""Starts or continues a bench (a comparison of recipes) in its folder. An error is raised if the folder contains a
different bench or other files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.bench.cell import recipe_file
from outrider.bench.spec import Bench, bench_of
from outrider.config import Recipe, dump_yaml, read_yaml, recipe_of_run
from outrider.errors import UserError
from outrider.record.disk import sweep, write_atomically
from outrider.runs.environment import environment

ENVIRONMENT = "environment.json"
_SPEC = "bench.yaml"


def begin(bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> None:
    """Write the bench's options and recipes to ``out``, and a file that records the software versions, the machine and
    the command line.

    The recipes are copied, so that a later change of a shipped recipe does not affect the remaining runs.

    Raises:
        UserError: the folder contains a different bench, for example one that another process has just started.
    """
    sweep(out)
    refuse_another(bench, recipes, out)
    begun = (out / _SPEC).is_file()
    about = _gone_on_with(json.loads((out / ENVIRONMENT).read_bytes())) if begun else environment()
    write_atomically(out / ENVIRONMENT, json.dumps(about, indent=1).encode() + b"\n")
    for name, recipe in recipes.items():
        if not recipe_file(out, name).exists():
            write_atomically(recipe_file(out, name), dump_yaml(recipe.resolved()).encode())
    write_atomically(out / _SPEC, dump_yaml(bench.model_dump(mode="json")).encode())


def refuse_another(bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> None:
    """Raise an error if the folder contains a bench with different options, or files that belong to no bench.

    Raises:
        UserError: the folder contains a different bench or other files; the message names the option that differs, or
            the file.
    """
    if (out / _SPEC).is_file():
        began = bench_of(read_yaml((out / _SPEC).read_text("utf-8"), _SPEC))
        if differences := _differences(began, bench, recipes, out):
            sizes = _sizes_of(began, bench, recipes, out)
            same = f", or pass the sizes of that bench: {' '.join(sizes)}" if sizes else ""
            raise UserError(f"{out} holds another bench ({'; '.join(differences)}); choose another output folder{same}")
        return
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} is a file; choose another output folder")
    files = sorted(p.name for p in out.iterdir() if p.name not in (".lock", ENVIRONMENT, "recipes"))
    if files:
        raise UserError(
            f"{out} is not empty and is not a bench folder (it holds {files[0]}); choose another output folder"
        )


def _sizes_of(began: Bench, bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> list[str]:
    """Return command-line arguments that set the new bench's numbers of evaluations, problems and samples to those of
    the existing bench. Numbers that are already equal are omitted.

    Numbers may differ, for example, if an older Outrider version started the existing bench. The present version
    chooses smaller numbers for small training budgets.
    """
    file = recipe_file(out, began.base)
    if began.base not in recipes or not file.exists():
        return []
    kept = recipe_of_run(read_yaml(file.read_text("utf-8"), began.base)).evaluate
    now = recipes[began.base].evaluate
    sizes = [f"--points {began.points}"] if began.points != bench.points else []
    before, after = (evaluate.model_dump() for evaluate in (kept, now))
    return sizes + [f"evaluate.{key}={before[key]}" for key in ("problems", "n") if before[key] != after[key]]


def _gone_on_with(about: dict[str, Any]) -> dict[str, Any]:
    """Return an updated copy of ``about``, the bench's record of versions, machine and command. Changed versions are
    appended under ``later``, and the command is replaced by the present command.

    A later command may add seeds and recipes, so only the latest command reproduces the whole bench.
    """
    now, later = environment(), about.get("later", [])
    parts = ("versions", "platform", "git")
    before = [about, *later][-1]
    if any(before[part] != now[part] for part in parts):
        later = [*later, {part: now[part] for part in ("started", *parts)}]
    return about | {"command": sys.argv, "later": later}


def _differences(began: Bench, bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> list[str]:
    """Return the differences between the existing and the new bench that would invalidate finished runs.

    Additional seeds, recipes and tuning values do not invalidate finished runs. With additional tuning values, tuning
    may choose another value for a recipe. :attr:`outrider.bench.cell.Cell.finished` then raises an error if the recipe
    has a finished run with the old value.
    """
    old, new = began.model_dump(mode="json"), bench.model_dump(mode="json")
    if began.final_test is None:  # a final test changes no run, so it may be added to a finished bench
        old["final_test"] = new["final_test"]
    if began.tune and bench.tune and all(values in bench.tune.candidates for values in began.tune.candidates):
        old["tune"]["values"] = new["tune"]["values"]
    may_grow = ("seeds", "recipes")
    results = [f"{key}: {old[key]} -> {new[key]}" for key in old if key not in may_grow and old[key] != new[key]]
    if bench.seeds < began.seeds:
        results.append(f"seeds: {began.seeds} -> {bench.seeds}")
    results += [f"without {name}" for name in began.recipes if name not in recipes]
    for name, recipe in recipes.items():
        if recipe_file(out, name).exists():
            kept = recipe_of_run(read_yaml(recipe_file(out, name).read_text("utf-8"), name))
            results += [f"{name}: {line}" for line in kept.difference(recipe)]
    return results
