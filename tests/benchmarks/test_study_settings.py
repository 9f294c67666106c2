"""``benchmarks/studies/settings.py``: how hard a setting is for its base."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from arms import arm, before, evaluation

from outrider.bench.report import BenchReport
from outrider.bench.spec import Bench

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(STUDIES))
    return importlib.import_module("settings")


def test_problems_are_distinguished_by_what_groups_of_eight_see_of_them(study: ModuleType) -> None:
    """One of sixteen is no longer rare, and fifteen are not yet easy."""
    found = study.spread(evaluation([0, 0, 3, 4, 32, 60, 61, 64], samples=64))
    assert found == {"out of reach": 2 / 8, "rare": 1 / 8, "mixed": 3 / 8, "easy": 2 / 8}


def test_a_long_run_is_read_from_before_training_on_with_its_intervals(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = before([0, 6, 20, 50], samples=64)
    grpo = arm("grpo", [[16] * 4] * 2, [[16, 48, 32, 32], [32] * 4], samples=64)
    bench = Bench(recipes=["grpo"], base="grpo", seeds=2, tokens=200, points=2)

    def run(command: str, *words: object, one_thread: bool) -> None:
        assert (command, words[:3], one_thread) == ("bench", ("grpo", "--setting", "sparse"), True)
        out = Path(str(words[-1]))
        out.mkdir()
        report = BenchReport(bench, start, start, (grpo,), {}, ())
        (out / "results.json").write_text(json.dumps(report.to_json()))

    monkeypatch.setattr(study, "outrider_command", run)
    points = study.long_run("sparse", tmp_path)
    assert [point["tokens"] for point in points] == [0, 100, 200]
    assert [point["pass@1"]["value"] for point in points] == [76 / 256, 0.25, 0.5]
    assert points[1]["pass@1"]["low"] == 0.25  # all seeds and problems agree
    assert points[2]["pass@1"]["low"] < 0.5 < points[2]["pass@1"]["high"]
    assert [point["pass@64"]["value"] for point in points] == [0.75, 1, 1]
    numbers = {"pass_at": {"1": {"value": 0.3, "low": 0.2, "high": 0.4}}, "problems": dict.fromkeys(study.SHARES, 0.25)}
    curve, shares, long = study.draw({"sparse": numbers | {"long": points}}).axes
    assert [line.get_ydata()[0] for line in (*curve.lines, *long.lines)] == [0.3, 76 / 256, 0.75]
    assert [bar.get_width() for bar in shares.patches] == [0.25] * 4
