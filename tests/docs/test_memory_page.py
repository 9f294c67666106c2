"""docs/memory.md: its tables are what the estimate says, of the models that they name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import memory_page
    finally:
        sys.path.pop(0)
    return memory_page


def test_the_page_is_what_the_tool_writes(tool) -> None:
    page = (ROOT / "docs/memory.md").read_text("utf-8")
    assert tool.page(page) == page


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("0.5B", 494_032_768), ("1.5B", 1_543_714_304), ("7B", 7_615_616_512), ("32B", 32_763_876_352)],
)
def test_the_models_are_those_of_the_hub(tool, name: str, parameters: int) -> None:
    """By the parameters that the hub counts."""
    assert tool.shape(name).parameters == parameters


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import memory
    finally:
        sys.path.pop(0)
    return memory


def test_what_was_measured_is_near_the_estimate(benchmark) -> None:
    """Of all committed results, with the estimate as it is now; ``test_memory.py`` measures one case anew."""
    results = {
        case["case"]: case for case in json.loads((ROOT / "benchmarks/results/memory.json").read_text())["cases"]
    }
    assert list(results) == [case.name for case in benchmark.CASES]
    for case in benchmark.CASES:
        result = results[case.name]
        assert result["estimated"] == round(benchmark.estimated(case).peak / 2**20)
        assert result["ratio"] == round(result["estimated"] / result["measured"], 3)
        assert 0.85 <= result["ratio"] <= 1.15, result
