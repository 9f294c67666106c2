"""A bench given where a run is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.cli import main
from outrider.errors import UserError
from outrider.report.opened import open_any
from outrider.runs.bench_folder import is_bench, runs_of_bench
from outrider.runs.folder import RunFolder


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Three begun runs, and one whose folder is still empty."""
    (tmp_path / "bench.yaml").write_text("recipes: [b, a]\n")
    for run in ("b/0", "a/10", "a/9"):
        RunFolder.create(tmp_path / "cells" / run, {"name": run}).close()
    (tmp_path / "cells/a/11").mkdir()
    RunFolder.create(tmp_path / "before", {"name": "before"}).close()
    return tmp_path


def test_the_runs_of_a_bench_are_those_that_were_begun_by_recipe_and_seed(bench: Path) -> None:
    assert is_bench(bench)
    assert [str(run.relative_to(bench / "cells")) for run in runs_of_bench(bench)] == ["a/9", "a/10", "b/0"]
    assert not is_bench(bench / "before")


def test_where_one_run_is_read_a_bench_is_refused_with_a_run_to_name(bench: Path) -> None:
    (bench / "bench.html").write_text("")
    sentence = (
        f"{bench} is a bench of 3 runs: name one of them, such as {bench}/cells/a/9; {bench}/bench.html is its page"
    )
    for read in (RunFolder.existing, open_any):
        with pytest.raises(UserError) as refused:
            read(bench)
        assert str(refused.value) == sentence


def test_a_bench_without_a_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bench.yaml").write_text("recipes: [a]\n")
    assert main(["report", str(tmp_path)]) == 2
    assert "there is no run in it yet" in capsys.readouterr().err
