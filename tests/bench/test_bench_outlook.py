"""What is done of a bench and how long the rest takes, from runs on disk."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from outrider.bench.cell import MEASURE_ONLY, Cell
from outrider.bench.outlook import Outlook
from outrider.config import dump_yaml, load_recipe
from outrider.runs.folder import RunFolder
from outrider.screen.progress import Progress

SIZES = ["evaluate={problems: 5, n: 7}", "train={tokens: 1000, evaluate_at: [0.5]}"]
"""Eight responses of five problems, twice in a run."""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return written(tmp_path, "grpo")


def written(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(dump_yaml(load_recipe(name, SIZES).resolved()))
    return path


def cell(recipe: Path, name: str, budget: float = 1000) -> Cell:
    overrides = () if budget else MEASURE_ONLY
    return Cell(name, recipe, overrides, recipe.parent / name, 0, "tokens" if budget else "steps", budget)


def run(cell: Cell, steps: Sequence[tuple[float, float]] = (), evaluations: Sequence[float | None] = ()) -> None:
    """Steps of tokens and seconds; seconds of evaluations."""
    with RunFolder.create(cell.path, {"name": "x"}) as folder:
        for step, (tokens, seconds) in enumerate(steps, start=1):
            folder.append_metrics(step, {"tokens": tokens})
            folder.append_timing(step, {"sample": seconds, "save": 99.0, "tokens_per_second": 1.0})
        for step, seconds in enumerate(evaluations):
            folder.write_evaluation(step, {}, seconds)


def test_the_rest_is_training_and_evaluations_shared_by_the_processes(recipe: Path) -> None:
    """0.1 seconds a token and 20 seconds an evaluation: a run is 140 seconds, of which the first has made 60."""
    begun, waiting = cell(recipe, "0"), [cell(recipe, name) for name in "123"]
    run(begun, [(200, 20), (400, 20)], [20.0])
    share, seconds = Outlook([begun, *waiting], 2).forecast() or (0, 0)
    assert seconds == pytest.approx((80 + 3 * 140) / 2)
    assert share == pytest.approx(60 / 560)


def test_the_longest_run_is_a_bound_where_processes_are_idle(recipe: Path) -> None:
    begun = cell(recipe, "0")
    run(begun, [(400, 40)], [20.0])
    assert (Outlook([begun], 8).forecast() or (0, 0))[1] == pytest.approx(80)


def test_a_recipe_has_a_pace_of_its_own_once_it_has_trained(tmp_path: Path) -> None:
    fast, slow = (written(tmp_path, name) for name in ("grpo", "dr-grpo"))
    ran, slower, new = cell(fast, "0"), cell(slow, "1"), cell(slow, "2")
    run(ran, [(1000, 10)], [0.0, 0.0])
    outlook = Outlook([ran, new], 1)
    outlook.end(ran)
    assert (outlook.forecast() or (0, 0))[1] == pytest.approx(10)
    run(slower, [(500, 50)], [0.0])
    outlook.add([slower])
    assert (outlook.forecast() or (0, 0))[1] == pytest.approx(50 + 100)


def test_a_measurement_counts_by_its_responses(recipe: Path) -> None:
    """Ten problems are twice as many responses as five."""
    first, other = cell(recipe, "before", 0), cell(recipe, "more", 0)
    other = Cell(other.label, recipe, (*MEASURE_ONLY, "evaluate.problems=10"), other.path, 0)
    run(first, [], [30.0])
    outlook = Outlook([first, other], 1)
    assert (outlook.done, outlook.total) == (0, 2)
    outlook.end(first)
    assert (outlook.done, outlook.total) == (1, 2)
    assert outlook.forecast() == pytest.approx((30 / 90, 60))


def test_a_failed_run_leaves_nothing_to_do_and_counts_what_it_spent(recipe: Path) -> None:
    failed, waiting = cell(recipe, "0"), cell(recipe, "1")
    run(failed, [(200, 20)])
    outlook = Outlook([failed, waiting], 1)
    assert (outlook.done, outlook.total) == (200, 2000)
    outlook.end(failed, failed=True)
    assert (outlook.done, outlook.total) == (200, 1200)
    assert (outlook.forecast() or (0, 0))[1] == pytest.approx(100)


def test_a_finished_run_counts_its_budget_whatever_its_last_step_added(recipe: Path) -> None:
    finished = cell(recipe, "0")
    run(finished, [(1234, 20)], [1.0, 1.0])
    outlook = Outlook([finished], 1)
    outlook.end(finished)
    assert (outlook.done, outlook.total) == (1000, 1000)
    assert outlook.forecast() == (1.0, 0.0)


def test_before_anything_is_timed_nothing_is_known(recipe: Path) -> None:
    assert Outlook([cell(recipe, "0")], 1).forecast() is None


def test_evaluations_of_runs_that_kept_no_seconds_count_as_nothing(recipe: Path) -> None:
    begun = cell(recipe, "0")
    run(begun, [(500, 50)], [None])
    assert Outlook([begun], 1).forecast() == pytest.approx((0.5, 50))


def test_a_progress_shows_what_is_foreseen() -> None:
    text = io.StringIO()
    with Progress(1000, "tokens", console=Console(file=text)) as progress:
        progress.recount(450, 900)
        progress.foresee(0.25, 3725)
    line = text.getvalue().splitlines()[-1]
    assert line.startswith("25% | 450 of 900 tokens | ")
    assert "| 1:02:05 left" in line


def test_tokens_that_are_drawn_again_count_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """300, back to the 200 of a checkpoint, and 450 ten seconds after the start: 550 tokens were drawn."""
    now = 0.0
    monkeypatch.setattr("outrider.screen.progress.time.monotonic", lambda: now)
    text = io.StringIO()
    progress = Progress(1000, "tokens", console=Console(file=text))
    with progress:
        progress.phase("running")
        for done in (300, 200, 290, 450):
            progress.recount(done, 1000)
        now = 10.0
    assert "450 of 1.00k tokens | 55 tokens/s" in text.getvalue().splitlines()[-1]
