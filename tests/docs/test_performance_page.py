"""docs/performance.md: its tables are what the committed results say."""

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
        import performance_page
    finally:
        sys.path.pop(0)
    return performance_page


def test_the_page_is_what_the_tool_writes(tool) -> None:
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    assert tool.page(page) == page


def test_another_result_is_another_page(tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    for file in tool.RESULTS.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(tool, "RESULTS", tmp_path)
    found = json.loads((tmp_path / "learner.json").read_text())
    found["micro_tokens_4096"]["ratio"]["median"] = 2.25
    (tmp_path / "learner.json").write_text(json.dumps(found))
    assert "| **2.25** (" in tool.page(page)  # bold: it reaches its aim


def test_every_steep_curve_has_a_known_reason() -> None:
    named = json.loads((ROOT / "benchmarks/results/scale.json").read_text())["named"]
    assert [name for name, why in named.items() if "not known" in why] == []
