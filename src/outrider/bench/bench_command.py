"""``outrider bench``: tune, run, measure, and write the page; started again, it continues."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from outrider.bench.cell import Cell, cells_before, cells_of, in_turn, recipe_file, tuning_cells
from outrider.bench.page import page, table
from outrider.bench.pool import Failure, run_cells
from outrider.bench.report import BenchReport
from outrider.bench.results import read_arm
from outrider.bench.spec import Bench
from outrider.bench.tallies import write_tallies
from outrider.bench.tuning import Choice, choose, tried
from outrider.bench.untouched import measure_untouched, untouched_cell
from outrider.config import Recipe, dump_yaml, read_yaml, recipe_of_run
from outrider.errors import UserError
from outrider.measure.evaluation import Evaluation
from outrider.processes.cores import usable_cores
from outrider.record.disk import sweep, write_atomically
from outrider.runs.environment import environment
from outrider.runs.folder import RunFolder, lock_folder

_SPEC, _ENVIRONMENT = "bench.yaml", "environment.json"


def bench_command(bench: Bench, recipes: Mapping[str, Recipe], out: Path, at_once: int | None = None) -> int:
    """Run the runs that are not finished, ``at_once`` at a time (None: one per core), then write table and page.

    Returns 0, or 1 if a run failed: the others are run and reported all the same.

    Raises:
        UserError: ``out`` holds something else, or another process works in it.
    """
    cores = usable_cores()
    if at_once is not None and not 1 <= at_once <= len(cores):
        raise UserError(f"--at-once is {at_once}, but should be from 1 to {len(cores)}, the cores of this machine")
    refuse_another(bench, recipes, out)
    with lock_folder(out):
        _open(bench, recipes, out)
        return _run(bench, out, cores[:at_once])


def _run(bench: Bench, out: Path, cores: list[int]) -> int:
    before = cells_before(out, bench)
    failures: list[Failure] = []
    choices: dict[str, Choice] = {}
    if bench.tune is not None:
        tune, names = bench.tune, bench.recipes
        tries = {name: [tuning_cells(out, bench, tune, name, values) for values in tune.tries] for name in names}
        rows = [cells for of_recipe in tries.values() for cells in of_recipe]
        failures += run_cells(in_turn(rows), cores, _finished_line, "tuning")
        for name, of_recipe in tries.items():
            arms = [read_arm(name, cells, [1.0]) for cells in of_recipe]
            choices[name] = choose(
                tune, [tried(tune, values, arm) for values, arm in zip(tune.tries, arms, strict=True)]
            )
    chosen = {name: choice.values for name, choice in choices.items() if choice.chosen is not None}
    cells = {
        name: cells_of(out, bench, name, chosen.get(name, {}))
        for name in bench.recipes
        if bench.tune is None or name in chosen
    }
    # in turn: an interrupted bench then has some seeds of every recipe instead of all seeds of the first
    compared = [*before, *in_turn(list(cells.values()))]
    failures += run_cells(compared, cores, _finished_line, next_of=lambda cell: _measured(bench, out, cell))
    first, again = (read_arm("before training", [cell], [0.0]) for cell in before)
    if first is None or again is None:
        raise UserError(
            failures[-1].sentence() if failures else f"{before[first is not None].path} holds no evaluation"
        )
    arms = [read_arm(name, cells[name], bench.shares) for name in bench.recipes if name in cells]
    untouched, failed = measure_untouched(bench, out, cells, cores, _finished_line)
    last = {failure.cell.path: failure for failure in (*failures, *failed)}  # what measures a run is tried twice
    sentences = [failure.sentence() for failure in last.values()]
    sentences += [f"{name}: every value that was tried failed" for name in bench.recipes if name not in cells]
    done = tuple(arm for arm in arms if arm is not None)
    report = BenchReport(bench, first, again, done, choices, tuple(sentences), untouched)
    _write(report, out)
    return 1 if sentences else 0


def _measured(bench: Bench, out: Path, run: Cell) -> Cell | None:
    """What measures a finished run on the untouched problems, where there are any."""
    return untouched_cell(bench, bench.untouched, out, run) if bench.untouched and run.budget else None


def _write(report: BenchReport, out: Path) -> None:
    from outrider.bench.frontier import draw_frontier

    about = json.loads((out / _ENVIRONMENT).read_bytes())
    results = report.to_json() | {"environment": about}
    write_atomically(out / "numbers.csv", report.to_csv().encode())
    write_atomically(out / "tallies.csv", write_tallies(report).encode())
    write_atomically(out / "results.json", json.dumps(results, indent=1, allow_nan=False).encode() + b"\n")
    draw_frontier(report, out / "frontier.png")
    write_atomically(out / "table.md", (table(report) + "\n").encode())
    write_atomically(out / "page.md", page(report, about).encode())
    console = Console()
    console.print(table(report), markup=False, highlight=False, soft_wrap=True)
    for sentence in report.failures:
        Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)
    console.print(f"everything is in {out}; read {out / 'page.md'}", highlight=False, soft_wrap=True)


def _open(bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> None:
    """Write the options of the bench.

    The recipes are copied: a later change of a shipped one must not affect the remaining runs.

    Raises:
        UserError: another process has begun another bench there meanwhile.
    """
    sweep(out)
    refuse_another(bench, recipes, out)
    begun = (out / _SPEC).is_file()
    about = _gone_on_with(json.loads((out / _ENVIRONMENT).read_bytes())) if begun else environment()
    write_atomically(out / _ENVIRONMENT, json.dumps(about, indent=1).encode() + b"\n")
    for name, recipe in recipes.items():
        if not recipe_file(out, name).exists():
            write_atomically(recipe_file(out, name), dump_yaml(recipe.resolved()).encode())
    write_atomically(out / _SPEC, dump_yaml(bench.model_dump(mode="json")).encode())


def _gone_on_with(about: dict[str, Any]) -> dict[str, Any]:
    """The environment of a bench's start, with the command that makes all of it again, the last, which may ask for more
    seeds and recipes; and every later environment that differs from the one before it."""
    now, later = environment(), about.get("later", [])
    parts = ("versions", "platform", "git")
    before = [about, *later][-1]
    if any(before[part] != now[part] for part in parts):
        later = [*later, {part: now[part] for part in ("started", *parts)}]
    return about | {"command": sys.argv, "later": later}


def _differences(began: Bench, bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> list[str]:
    """Differences that invalidate finished runs. More seeds, recipes and values to try do not.

    A finished run whose recipe now gets another value is refused when it comes to it (:mod:`outrider.bench.cell`).
    """
    old, new = began.model_dump(mode="json"), bench.model_dump(mode="json")
    if began.untouched is None:  # it changes no run, and may be asked for when all are done
        old["untouched"] = new["untouched"]
    if began.tune and bench.tune and all(values in bench.tune.tries for values in began.tune.tries):
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


def refuse_another(bench: Bench, recipes: Mapping[str, Recipe], out: Path) -> None:
    """Refuse a folder that holds a bench with other options, or anything else.

    Raises:
        UserError: it does; what differs, or which file.
    """
    if (out / _SPEC).is_file():
        began = Bench.model_validate(read_yaml((out / _SPEC).read_text("utf-8"), _SPEC))
        if differences := _differences(began, bench, recipes, out):
            raise UserError(f"{out} holds another bench ({'; '.join(differences)}); choose another output folder")
        return
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} is a file; choose another output folder")
    files = sorted(p.name for p in out.iterdir() if p.name not in (".lock", _ENVIRONMENT, "recipes"))
    if files:
        raise UserError(f"{out} is not empty and holds no bench ({files[0]}); choose another output folder")


def _finished_line(cell: Cell) -> str:
    """The line of a finished run."""
    folder = RunFolder(cell.path)
    overall = Evaluation.from_json(folder.evaluations()[max(folder.evaluations())]).overall
    rows = folder.metrics()
    shown = [f"pass@{k} {overall.pass_at[k].value:.3f}" for k in sorted({1, max(overall.pass_at)})]
    spent = [f"{rows[-1]['tokens']:,.0f} tokens in {len(rows)} steps"] if rows else []
    return f"{cell.label}: {', '.join([*shown, *spent])}"
