"""Per-problem counts of a bench: enough to compute its numbers again, and any change of them shows."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from outrider.bench.tallies import COMPARED, FINAL_TEST, Count, TallyColumn, read_tallies
from outrider.cli import main
from outrider.errors import UserError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tallies") / "bench"
    few = ["train.problems=4", "evaluate.problems=6", "evaluate.n=4", "sample.max_tokens=40"]
    words = ["bench", "grpo", "dars-hw", "--steps", "2", "--seeds", "2", "--points", "2", "--final-test", "5", *few]
    assert main([*words, "--out", str(out)]) == 0
    return out


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "_map_tallies", raising=False)
    from _map_tallies import checked

    return checked


def test_tallies_hold_the_counts_of_every_evaluation(bench: Path) -> None:
    tallies = read_tallies((bench / "tallies.csv").read_text())
    assert {name: len(columns) for name, columns in tallies.items()} == {COMPARED: 2 + 2 * 2 * 2, FINAL_TEST: 2 + 2 * 2}
    for column, share in ((TallyColumn("dars-hw", 1, 1.0), "00000002"), (TallyColumn("dars-hw", 1, 0.5), "00000001")):
        evaluation = json.loads((bench / f"cells/dars-hw/1/evaluations/step-{share}.json").read_text())
        counts = {t["problem"]: Count(t["successes"], t["scorable"]) for t in evaluation["tallies"]}
        assert tallies[COMPARED][column] == counts


def test_every_number_of_the_results_follows_from_them(bench: Path, checked) -> None:
    count, wrong = checked(bench)
    assert count > 300
    assert wrong == []


def test_a_changed_count_or_a_changed_result_shows(bench: Path, checked, tmp_path: Path) -> None:
    other = shutil.copytree(bench, tmp_path / "other", ignore=shutil.ignore_patterns("cells", "before*"))
    lines = (other / "tallies.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[-1] = str((int(cells[-1]) + 1) % 5)
    (other / "tallies.csv").write_text("\n".join([lines[0], ",".join(cells), *lines[2:], ""]))
    assert any("dars-hw" in sentence for sentence in checked(other)[1])
    shutil.copy(bench / "tallies.csv", other)
    results = json.loads((other / "results.json").read_text())
    results["untouched"]["recipes"]["dars-hw"]["minus_base"]["pass@4"]["value"] += 0.001
    (other / "results.json").write_text(json.dumps(results))
    [sentence] = checked(other)[1]
    assert "untouched.recipes.dars-hw.minus_base.pass@4.value" in sentence
    del results["untouched"]["recipes"]["dars-hw"]["minus_base"]["pass@4"]["value"]
    (other / "results.json").write_text(json.dumps(results))
    [sentence] = checked(other)[1]
    assert "minus_base.pass@4.value is missing" in sentence


def test_the_check_of_the_map_fails_without_tallies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from _map_tallies import check

    assert check(tmp_path) == 1
    assert "holds no comparison" in capsys.readouterr().out
    (tmp_path / "countdown" / "new").mkdir(parents=True)
    (tmp_path / "countdown" / "new" / "results.json").write_text("{}")
    assert check(tmp_path) == 1
    assert "countdown/new: tallies.csv is missing" in capsys.readouterr().out


def test_a_response_that_could_not_be_verified_is_in_no_count() -> None:
    read = read_tallies("set,problem,level,samples,grpo/3@0.25\nuntouched,p,,8,2\nuntouched,q,,8,2/7\n")
    assert read == {FINAL_TEST: {TallyColumn("grpo", 3, 0.25): {"p": Count(2, 8), "q": Count(2, 7)}}}


def test_another_table_is_refused() -> None:
    with pytest.raises(UserError, match="tallies, line 2"):
        read_tallies("set,problem,level,samples,grpo/3@1\nuntouched,p,,8\n")


def test_a_bench_of_a_changed_tree_says_so_on_its_page(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from outrider.bench.provenance import _where

    about = {"started": "now", "platform": "here", "versions": {}, "git": "abc-dirty"}
    assert "uncommitted changes" in _where(about)
    assert "uncommitted" not in _where(about | {"git": "abc"})
