"""The run as the checks of the viewer read it: the same findings as a report's, and unchanged while a run goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from plain_rows import random_rows, row
from viewing import RUN, plain_run

from dumps import one_of_each
from outrider.importers.plain import PLAIN
from outrider.report.examined import examined
from outrider.report.findings import examine
from outrider.report.kind import with_evaluations
from outrider.view.opened_run import OpenedRun


def same_findings(path: Path) -> None:
    with OpenedRun(path).snapshot() as run:
        found = examine(with_evaluations(run))
    assert repr(found) == repr(examined(path)), path


def test_its_findings_are_those_of_a_report(tmp_path: Path) -> None:
    same_findings(RUN)
    for path in one_of_each(tmp_path).values():
        same_findings(path)
    same_findings(plain_run(tmp_path, random_rows(1, steps=30)))
    # texts and answers that were accepted and rejected, of which two checks read what is not in memory
    ill = [
        row(
            step=step,
            problem_id=f"p{step % 9}",
            member=i,
            text="so",
            answer="7",
            outcome=("correct", "incorrect")[i % 2],
        )
        for step in range(1, 40)
        for i in range(8)
    ]
    same_findings(path := plain_run(tmp_path, ill, "ill"))
    assert {"verifier suspicion", "duplicates"} <= {one.name for one in examined(path).findings}


def test_its_rollouts_are_those_of_the_files(tmp_path: Path) -> None:
    for path in (RUN, plain_run(tmp_path)):
        opened = OpenedRun(path)
        names = ", ".join(PLAIN.names)
        want = opened.data.db.execute(f"SELECT {names} FROM rollouts ORDER BY ALL").fetchall()
        with opened.snapshot() as run:
            assert str(run.db.execute(f"SELECT {names} FROM rollouts ORDER BY ALL").fetchall()) == str(want)


def test_it_stays_as_it_was_while_the_run_goes_on(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(RUN, tmp_path / "run"))
    last = sorted((copied / "rollouts").glob("train-*.parquet"))[-1]
    opened = OpenedRun(copied)
    count = opened.count()
    with opened.snapshot() as run:
        last.unlink()
        opened._seen_at = -1e9
        opened.refresh()
        assert opened.count() < count
        assert run.query(f"SELECT count(*) AS n FROM {run.numbers}")["n"][0] == count
    with opened.snapshot() as run:
        assert run.query("SELECT count(*) AS n FROM rollouts")["n"][0] == opened.count()


def test_a_damaged_file_is_in_neither_part(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(RUN, tmp_path / "run"))
    first = sorted((copied / "rollouts").glob("train-*.parquet"))[0]
    data = bytearray(first.read_bytes())
    data[200:600] = bytes(400)
    first.write_bytes(data)
    opened = OpenedRun(copied)
    with opened.snapshot() as run:
        for relation in (run.numbers, "rollouts"):
            assert run.query(f"SELECT count(*) AS n FROM {relation}")["n"][0] == opened.count()
        assert run.query("SELECT count(text) AS n FROM rollouts WHERE split = 'train'")["n"][0] > 0
        assert examine(with_evaluations(run)).checked


def test_a_run_without_rollouts_yet_has_an_empty_one(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(RUN, tmp_path / "run"))
    shutil.rmtree(copied / "rollouts")
    (copied / "rollouts").mkdir()
    with OpenedRun(copied).snapshot() as run:
        assert run.query("SELECT count(*) AS n FROM rollouts")["n"][0] == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_gathered_run_has_its_numbers_without_texts(tmp_path: Path, seed: int) -> None:
    from outrider.report.run import gather, open_run

    run = gather(open_run(plain_run(tmp_path, random_rows(seed))))
    assert run.numbers != "rollouts"
    known = ", ".join(name for name in PLAIN.names if name not in ("text", "prompt", "answer", "detail"))
    both = [
        str(run.db.execute(f"SELECT {known} FROM {of} ORDER BY ALL").fetchall()) for of in (run.numbers, "rollouts")
    ]
    assert both[0] == both[1]
