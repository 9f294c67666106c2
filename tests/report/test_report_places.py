"""Where `outrider report` and `outrider compare` write: like places for like words."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from plain_rows import random_rows, table

from outrider.cli import main
from outrider.errors import UserError
from outrider.report.places import report_files


@pytest.fixture
def runs(tmp_path, monkeypatch) -> list[str]:
    """Two dumps in a folder, seen from another one."""
    for name, seed in (("a", 0), ("b", 1)):
        path = tmp_path / "runs" / name / "rollouts.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table(random_rows(seed, steps=3)), path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return ["../runs/a", "../runs/b"]


def written(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return found - {"runs/a/rollouts.parquet", "runs/b/rollouts.parquet"}


@pytest.mark.parametrize(
    ("out", "page"),
    [
        (["--out", "mine.html"], "elsewhere/mine"),
        (["--out", "deep/mine.html"], "elsewhere/deep/mine"),
        (["--out", "new"], "elsewhere/new/{name}"),
        (["--out", "../runs"], "runs/{name}"),
        ([], None),
    ],
)
def test_both_commands_write_to_like_places(tmp_path, runs, out, page):
    for name, of, default in (("report", runs[:1], "runs/a/report"), ("compare", runs, "runs/compare")):
        before = written(tmp_path)
        assert main([name, *of, *out]) == 0
        place = default if page is None else page.format(name=name)
        new = written(tmp_path) - before
        assert new == {f"{place}.html", f"{place}.json"} or (name == "compare" and "mine" in place)  # replaced
        assert (tmp_path / f"{place}.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["report", "compare"])
def test_another_suffix_is_one_sentence_before_anything_is_read(tmp_path, runs, capsys, name):
    of = ["nowhere"] if name == "report" else ["nowhere", "either"]
    assert main([name, *of, "--out", "page.pdf"]) == 2
    assert "--out page.pdf is neither a folder nor a page: name a file that ends in .html" in capsys.readouterr().err
    assert written(tmp_path) == set()


def test_a_folder_may_have_a_dot_where_it_exists_and_a_file_is_none(tmp_path):
    (tmp_path / "v0.2").mkdir()
    (tmp_path / "page.html").mkdir()
    (tmp_path / "notes").write_text("")
    assert report_files(tmp_path / "v0.2", "report").page == tmp_path / "v0.2" / "report.html"
    assert report_files(tmp_path / "page.html", "report").page == tmp_path / "page.html" / "report.html"
    for taken in ("notes", "v0.3"):
        with pytest.raises(UserError, match="neither a folder nor a page"):
            report_files(tmp_path / taken, "report")
