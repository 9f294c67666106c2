"""The last policies on problems that are kept back: no setting was chosen by them, and no curve was watched on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from outrider.bench.cell import MEASURE_ONLY, Cell, in_turn, override, recipe_file
from outrider.bench.pool import Failure, run_cells
from outrider.bench.report import BenchReport
from outrider.bench.results import read_arm
from outrider.bench.spec import Bench, Untouched
from outrider.config import load_recipe
from outrider.runs.folder import RunFolder


def measure_untouched(
    bench: Bench,
    out: Path,
    trained: Mapping[str, Sequence[Cell]],
    cores: Sequence[int],
    done: Callable[[Cell], str],
) -> tuple[BenchReport | None, list[Failure]]:
    """Measure the policy before training and the last one of each finished run, where that has not been done.

    None where the bench keeps no problems back, or where the policy before training could not be measured.
    """
    if bench.untouched is None:
        return None, []
    before, last = untouched_cells(bench, bench.untouched, out, trained)
    failures = run_cells([before, *in_turn(list(last.values()))], cores, done, "measuring on untouched problems")
    first = read_arm("before training", [before], [0.0])
    if first is None:
        return None, failures
    arms = [read_arm(name, cells, [0.0]) for name, cells in last.items()]
    return BenchReport(bench, first, first, tuple(arm for arm in arms if arm is not None), {}, ()), failures


def untouched_cells(
    bench: Bench, untouched: Untouched, out: Path, trained: Mapping[str, Sequence[Cell]]
) -> tuple[Cell, dict[str, list[Cell]]]:
    """What measures the policy before training, and for each recipe the last policies of its finished runs.

    Each lies in the run whose policy it measures, so that a run that is moved takes its measurement along.
    """
    before = Cell("before training, untouched", recipe_file(out, bench.base), _kept(bench, untouched, out),
                  out / "before" / "untouched", 0)  # fmt: skip
    last = {
        name: [untouched_cell(bench, untouched, out, cell) for cell in cells if cell.finished]
        for name, cells in trained.items()
    }
    return before, last


def untouched_cell(bench: Bench, untouched: Untouched, out: Path, run: Cell) -> Cell:
    """What measures the last policy of one run, when that is finished."""
    path, policy = run.path / "untouched", RunFolder(run.path).model
    return Cell(f"{run.label}, untouched", run.recipe, _kept(bench, untouched, out), path, run.seed, policy=policy)


def _kept(bench: Bench, untouched: Untouched, out: Path) -> tuple[str, ...]:
    """The overrides that measure on these problems alone."""
    skip = bench.untouched_from(load_recipe(str(recipe_file(out, bench.base))).evaluate.problems)
    return (*MEASURE_ONLY, override("evaluate.problems", untouched.problems), override("evaluate.skip", skip))
