"""``outrider bench``: tune, run, measure, and write the page; started again, it continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from outrider.bench.begin import ENVIRONMENT, begin, refuse_another
from outrider.bench.cell import Cell, cells_before, cells_of, in_turn, tuning_cells
from outrider.bench.page import page, table
from outrider.bench.pool import Failure, run_cells
from outrider.bench.report import BenchReport
from outrider.bench.results import read_arm
from outrider.bench.spec import Bench
from outrider.bench.tallies import write_tallies
from outrider.bench.tuning import Choice, choose, tried
from outrider.bench.untouched import measure_untouched, untouched_cell
from outrider.config import Recipe
from outrider.errors import UserError
from outrider.measure.evaluation import Evaluation
from outrider.processes.cores import usable_cores
from outrider.record.disk import write_atomically
from outrider.runs.folder import RunFolder, lock_folder


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
        begin(bench, recipes, out)
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

    about = json.loads((out / ENVIRONMENT).read_bytes())
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


def _finished_line(cell: Cell) -> str:
    """The line of a finished run."""
    folder = RunFolder(cell.path)
    overall = Evaluation.from_json(folder.evaluations()[max(folder.evaluations())]).overall
    rows = folder.metrics()
    shown = [f"pass@{k} {overall.pass_at[k].value:.3f}" for k in sorted({1, max(overall.pass_at)})]
    spent = [f"{rows[-1]['tokens']:,.0f} tokens in {len(rows)} steps"] if rows else []
    return f"{cell.label}: {', '.join([*shown, *spent])}"
