"""docs/clusters.md and docs/tinker.md: their tables are what the code refuses, and what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pages_are_what_the_tool_writes() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import clusters_page
    finally:
        sys.path.pop(0)
    for file, tables in clusters_page.PAGES.items():
        text = file.read_text("utf-8")
        assert clusters_page.page(text, tables) == text, file.name
