"""Implements ``outrider bench``, which plans and executes runs, then compares and plots their results. The same command
continues an interrupted bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from outrider.bench.begin import begin, refuse_another
from outrider.bench.cell import cells_before, cells_of, final_test_cells, in_turn, tuning_cells
from outrider.bench.draw import draw, print_results
from outrider.bench.dry import costs
from outrider.bench.planned import Planned
from outrider.bench.pool import Failure, run_cells
from outrider.bench.report import BenchReport
from outrider.bench.results import read_arm, read_measurements
from outrider.bench.spec import Bench, Tune
from outrider.bench.tuning import Choice, choose, tried
from outrider.errors import UserError
from outrider.processes.cores import usable_cores
from outrider.runs.folder import lock_folder


def bench_command(planned: Planned, out: Path, at_once: int | None = None) -> int:
    """Run a bench with :func:`run_bench`, print its results, and return 1 if a run failed, otherwise 0."""
    report = run_bench(planned, out, at_once)
    print_results(report, out)
    return int(bool(report.failures))


def run_bench(planned: Planned, out: Path, at_once: int | None = None) -> BenchReport:
    """Print the estimated cost of the bench, execute all unfinished runs, then write the results to ``out``.

    ``at_once`` is the number of runs to execute in parallel (None: one run per core). If a run fails, the other runs
    are still executed and reported.

    Raises:
        UserError: ``at_once`` is out of range, ``out`` contains a different bench or other files, or another process
            uses ``out``.
    """
    bench, recipes, _ = planned
    cores = usable_cores()
    if at_once is not None and not 1 <= at_once <= len(cores):
        raise UserError(
            f"at_once is {at_once}, but should be from 1 to {len(cores)}, the number of cores of this machine"
        )
    refuse_another(bench, recipes, out)
    with lock_folder(out):
        begin(bench, recipes, out)
        lines = [*costs(planned), f"bench folder: {out}"]
        Console().print(*lines, sep="\n", soft_wrap=True, markup=False, highlight=False)
        return _compare(bench, out, cores[:at_once])


def _tune(bench: Bench, tune: Tune, out: Path, cores: Sequence[int]) -> tuple[dict[str, Choice], list[Failure]]:
    """Try all hyperparameter values in separate runs before the comparison, and choose the values for each recipe."""
    # plan
    runs = {
        name: [tuning_cells(out, bench, tune, name, values) for values in tune.candidates] for name in bench.recipes
    }
    # run
    failures = run_cells(in_turn([cells for candidates in runs.values() for cells in candidates]), cores, "tuning")
    # collect
    arms = {name: [read_arm(name, cells, [1.0]) for cells in candidates] for name, candidates in runs.items()}
    # choose
    scores = {name: [tried(tune, *each) for each in zip(tune.candidates, arms[name], strict=True)] for name in arms}
    return {name: choose(tune, options) for name, options in scores.items()}, failures


def _compare(bench: Bench, out: Path, cores: Sequence[int]) -> BenchReport:
    """Compare the recipes. If the bench tunes hyperparameters, the recipes use the tuned values."""
    choices, failures = _tune(bench, bench.tune, out, cores) if bench.tune else ({}, [])
    chosen = {name: choice.values for name, choice in choices.items() if choice.chosen is not None}

    # plan
    before = cells_before(out, bench)
    names = chosen if bench.tune else bench.recipes
    trained = {name: cells_of(out, bench, name, chosen.get(name, {})) for name in names}
    kept_before, kept = final_test_cells(bench, bench.final_test, out, trained) if bench.final_test else (None, {})

    # run
    failures += run_cells([*before, *in_turn(trained.values())], cores, "running", in_turn(kept.values()))
    if failures and not all(cell.finished for cell in before):
        raise UserError(failures[-1].sentence())
    if kept_before:
        ready = [[cell for cell in cells if cell.ready] for cells in kept.values()]
        failures += run_cells([kept_before, *in_turn(ready)], cores, "measuring on the final test set")

    # collect
    compared, last_test = read_measurements(before, trained, bench.shares), None
    if kept_before and kept_before.finished:
        last_test = read_measurements((kept_before, kept_before), kept, [0.0])

    # compare
    last = {failure.cell.path: failure.sentence() for failure in failures}  # a measurement may fail twice
    failed = [f"{name}: every value that was tried failed" for name in bench.recipes if name not in trained]
    ends = last_test and BenchReport(bench, *last_test, {}, ())
    report = BenchReport(bench, *compared, choices, (*last.values(), *failed), ends)

    # draw
    draw(report, out)
    return report
