"""``outrider report``: what it writes, what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from plain_rows import random_rows, row, table

from outrider.cli import main
from outrider.report import report_command
from outrider.report.build import build
from outrider.report.content import Report
from outrider.report.data import RunData
from outrider.report.run import gather
from runs import run_of

DEAD = [row(step=s, problem_id=f"p{i}", member=m) for s in (1, 2, 3) for i in range(60) for m in range(4)]


def plain(path: Path, rows: list[dict[str, object]] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows or random_rows(0)), path)
    return path


def test_a_run_folder_is_reported_without_options(tmp_path, capsys):
    run_of(tmp_path / "mine", 2).close()
    assert main(["report", str(tmp_path / "mine")]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert str(tmp_path / "mine/report.html") in printed.out.replace("\n", "")
    told = json.loads((tmp_path / "mine/report.json").read_text())
    assert told["schema_version"] == 2
    assert told["title"] == "Report of mine"
    assert told["facts"]["rollouts"] == 2
    html = (tmp_path / "mine/report.html").read_text()
    assert html.startswith("<!doctype html>")
    assert "Report of mine" in html
    for name in (*told["checked"], *told["skipped"]):  # every check is accounted for, here and in the terminal
        assert name in " ".join(printed.out.split())


def test_findings_are_printed_with_their_advice_and_kept(tmp_path, capsys):
    file = plain(tmp_path / "dump.parquet", DEAD)
    assert main(["report", str(file), "--out", str(tmp_path / "there/it is")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    told = json.loads((tmp_path / "there/it is/report.json").read_text())
    (finding,) = [f for f in told["findings"] if f["name"] == "dead prompts"]
    assert "act: dead prompts" in printed
    assert finding["sentence"] in printed
    assert finding["advice"][0] in printed
    assert finding["name"] not in printed.split("checked and not found:")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is nothing at nowhere"),
        (["dump.parquet", "other"], "a report is of one run; several are compared by `outrider compare"),
        (["dump.parquet", "--watch", "--out", "x"], "--watch serves the page and writes nothing"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    plain(tmp_path / "dump.parquet", [row()])
    assert main(["report", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["dump.parquet"]


def test_what_was_not_read_is_said_and_an_earlier_report_is_replaced(tmp_path, capsys):
    plain(tmp_path / "a.parquet", [row()])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "report.json").write_text("of yesterday")
    assert main(["report", str(tmp_path)]) == 0
    assert "b.parquet was skipped" in capsys.readouterr().err
    assert "b.parquet was skipped" in json.loads((tmp_path / "report.json").read_text())["facts"]["not read"]
    names = ["a.parquet", "b.parquet", "report.html", "report.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("when", ["gathered", "opened"])
def test_a_step_that_is_set_aside_meanwhile_is_one_sentence(tmp_path, monkeypatch, capsys, when):
    """A watch goes on after it: the run was resumed from a checkpoint, and will write the step again."""
    run_of(tmp_path / "mine", 3).close()

    def late(run: RunData) -> Report:
        if when == "gathered":
            gather(run)
        (tmp_path / "mine/rollouts/train-00000003.parquet").unlink()
        return build(run)

    monkeypatch.setattr(report_command, "build", late)
    assert main(["report", str(tmp_path / "mine")]) == 2
    assert f"{tmp_path / 'mine'} changed while it was read: " in capsys.readouterr().err


def test_watching_serves_the_page_and_writes_nothing(tmp_path, monkeypatch):
    file = plain(tmp_path / "dump.parquet", [row()])
    served = []
    monkeypatch.setattr(report_command, "watch", lambda make, folders, port: served.append((make(), folders, port)))
    assert main(["report", str(file), "--watch", "--port", "0"]) == 0
    ((page, folders, port),) = served
    assert "Report of dump" in page
    assert (folders, port) == ([file], 0)
    assert [path.name for path in tmp_path.iterdir()] == ["dump.parquet"]
