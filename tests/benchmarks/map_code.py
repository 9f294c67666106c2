"""The map's code, and finished benches as it finds them: what its tests share."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from arms import arm, before

from outrider.bench.report import BenchReport
from outrider.bench.spec import Bench

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "results" / "map"
PENDING = ["prose", "sparse"]
"""Settings with a row in README's table whose confirmation is not committed yet: the row is the comparison's."""


def map_code(name: str) -> ModuleType:
    """A module of the map: ``map``, or ``_map_…``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        return importlib.import_module(name)


def tuned(**means: float | None) -> dict[str, Any]:
    """What the screen finds: for each recipe something as good, something better or worse, and what was chosen."""

    def tried(lr: float, mean: float | None) -> dict[str, Any]:
        scores = None if mean is None else {"criterion": {"value": mean}}
        return {"values": {"learn.lr": lr, "learn.minibatches": 4}, "failed": int(mean is None), "scores": scores}

    return {
        name.replace("_", "-"): {
            "tried": [tried(1e-4, mean), tried(2e-4, mean)],
            "chosen": {"learn.lr": 2e-4, "learn.minibatches": 4},
        }
        for name, mean in means.items()
    }


def measured(place: Path, name: str, wins: int, grpo: int = 32, points: int = 1) -> None:
    """A bench of two seeds that is done: how many of 64 samples of each problem are right, of GRPO and of a recipe."""
    start = before([0, 6, 20, 50], samples=64)
    of_each = {"grpo": grpo, name: wins}
    arms = [arm(each, *[[[right] * 4] * 2] * points, samples=64) for each, right in of_each.items()]
    bench = Bench(recipes=["grpo", name], base="grpo", seeds=2, tokens=100, points=points)
    report = BenchReport(bench, start, start, (*arms,), {}, (), BenchReport(bench, start, start, (*arms,), {}, ()))
    kept(place, report, **dict.fromkeys(of_each, (2e-4, 4, 1)))


def kept(place: Path, report: BenchReport, **learn: tuple[float, int, int]) -> None:
    """What the map reads of a bench: results, numbers, and each recipe's rate, minibatches and epochs."""
    (place / "recipes").mkdir(parents=True, exist_ok=True)
    (place / "numbers.csv").write_text(report.to_csv())
    told = report.to_json() | {"environment": {"command": ["outrider", "bench", "task.pool=2048"]}}
    (place / "results.json").write_text(json.dumps(told, allow_nan=False))
    for name, values in learn.items():
        options = dict(zip(("lr", "minibatches", "epochs"), values, strict=True))
        (place / "recipes" / f"{name}.yaml").write_text(json.dumps({"learn": options}))


def rows_of(text: str, start: str) -> list[list[str]]:
    """The cells of the rows of tables that begin so."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith(start)]
