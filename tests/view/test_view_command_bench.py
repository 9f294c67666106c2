"""``outrider view`` of a bench shows all of its runs."""

from __future__ import annotations

from pathlib import Path

from outrider.view.view_command import opened
from runs import run_of


def test_a_bench_is_opened_as_its_runs(tmp_path: Path) -> None:
    (tmp_path / "bench.yaml").write_text("recipes: [a, b]\n")
    for name in ("cells/a/0", "cells/b/0", "other"):
        run_of(tmp_path / name, 2).close()
    said = list[str]()
    runs = opened([tmp_path / "other", tmp_path], say=said.append)
    try:
        assert said == [f"Reading {tmp_path}/{name} …" for name in ("other", "cells/a/0", "cells/b/0")]
        assert [run.count() for run in runs] == [2, 2, 2]
    finally:
        for run in runs:
            run.close()
