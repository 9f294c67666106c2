"""The map's code, and benches that are done as it finds them: what its tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from arms import arm, before
from outrider.bench.report import BenchReport
from outrider.bench.spec import Bench

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


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
    """A bench of two seeds that is done: how many of 64 tries at each problem are right, of GRPO and of a recipe."""
    start = before([0, 6, 20, 50], samples=64)
    of_each = {"grpo": grpo, name: wins}
    arms = [arm(each, *[[[right] * 4] * 2] * points, samples=64) for each, right in of_each.items()]
    bench = Bench(recipes=["grpo", name], base="grpo", seeds=2, tokens=100, points=points)
    found = BenchReport(bench, start, start, (*arms,), {}, (), BenchReport(bench, start, start, (*arms,), {}, ()))
    place.mkdir(parents=True, exist_ok=True)
    rows = (f"{each},{seed},{i},0.5,0.5\n" for each in of_each for seed in range(2) for i in range(points))
    (place / "numbers.csv").write_text("recipe,seed,share,pass@1,pass@64\n" + "".join(rows))
    told = found.to_json() | {"environment": {"command": ["outrider", "bench", "task.pool=2048"]}}
    (place / "results.json").write_text(json.dumps(told))
    recipes(place, **dict.fromkeys(of_each, 1))


def recipes(place: Path, **epochs: int) -> None:
    """As a bench keeps them, as far as the map reads them."""
    (place / "recipes").mkdir(exist_ok=True)
    for name, count in epochs.items():
        (place / "recipes" / f"{name}.yaml").write_text(f"learn: {{epochs: {count}}}")
