"""``outrider report`` on what other frameworks wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dumps
from outrider.cli import main


def told(folder: Path) -> dict[str, object]:
    return json.loads((folder / "report.json").read_text())


def test_dumps_of_other_frameworks_are_reported(tmp_path, capsys):
    run = tmp_path / "verl-run"
    for step in range(1, 4):
        rows = [dumps.verl(step, f"p{i}", f"answer {m}", float(m == i), acc=m == i) for i in range(3) for m in range(4)]
        dumps.lines(run / f"{step}.jsonl", rows)
    assert main(["report", str(run)]) == 0
    printed = capsys.readouterr()
    assert "was read as rollouts of the format 'verl'" in printed.err
    facts = told(run)["facts"]
    assert (facts["rollouts"], facts["steps"], facts["problems"]) == (36, 3, 3)
    page = (run / "report.html").read_text()
    assert "Report of verl-run" in page
    assert "Solved, mixed, unsolved" in page


def test_fields_of_an_unknown_dump_are_named_by_the_user(tmp_path, capsys):
    file = dumps.lines(tmp_path / "mine.jsonl", [{"q": f"p{i % 5}", "points": i % 3} for i in range(40)])
    assert main(["report", str(file)]) == 2
    assert "points, q" in capsys.readouterr().err
    assert main(["report", str(file), "--column", "problem=q", "--column", "success=points >= 2"]) == 0
    printed = capsys.readouterr()
    assert "Success is points >= 2.0, as asked." in printed.err
    assert told(tmp_path)["facts"]["problems"] == 5
    assert "duplicates" in told(tmp_path)["skipped"]  # no field is the text: nothing is known of repeats


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("problem", "--column problem: name a column and a field"),
        ("problm=q", "a rollout has no column 'problm'"),
        ("problem=qq", "no record has a field 'qq'"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, capsys, column, sentence):
    file = dumps.lines(tmp_path / "mine.jsonl", [{"q": "p", "ok": True}])
    assert main(["report", str(file), "--column", "success=ok", "--column", column]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_columns_of_a_run_are_not_renamed(tmp_path, capsys):
    (tmp_path / "rollouts").mkdir()
    assert main(["report", str(tmp_path), "--column", "problem=q"]) == 2
    assert "is no dump of another framework" in capsys.readouterr().err
