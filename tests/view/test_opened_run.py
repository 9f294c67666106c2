"""A run that goes on while it is looked at: new files come, set-aside ones go, damaged ones are said."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from viewing import RUN, plain_run

from outrider.errors import UserError
from outrider.view.opened_run import OpenedRun


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


def look(run: OpenedRun) -> OpenedRun:
    run._seen_at = -1e9
    run.refresh()
    return run


def test_new_files_are_taken_in_and_others_stay(copied: Path, tmp_path: Path) -> None:
    files = sorted((copied / "rollouts").glob("*.parquet"))
    away = tmp_path / "away"
    away.mkdir()
    for file in files[1:]:
        file.rename(away / file.name)
    run = OpenedRun(copied)
    counts, versions = [run.count()], [run.version]
    for file in files[1:]:
        (away / file.name).rename(file)
        counts.append(look(run).count())
        versions.append(run.version)
    assert counts == sorted(set(counts))
    assert len(set(versions)) == len(versions)
    whole = OpenedRun(copied)
    for query in ("SELECT * EXCLUDE (file) FROM seen ORDER BY ALL", "SELECT * EXCLUDE (file) FROM texts ORDER BY ALL"):
        assert list(map(str, run.rows(query))) == list(map(str, whole.rows(query)))


def test_files_that_a_resume_set_aside_are_forgotten(copied: Path) -> None:
    run = OpenedRun(copied)
    before = run.count()
    last = sorted((copied / "rollouts").glob("train-*.parquet"))[-1]
    inside = run.rows("SELECT count(*) AS n FROM seen WHERE file = ?", [str(last)])[0]["n"]
    last.unlink()
    assert look(run).count() == before - inside > 0


def test_a_damaged_file_is_excluded_and_said(copied: Path) -> None:
    whole = OpenedRun(copied).count()
    first = sorted((copied / "rollouts").glob("train-*.parquet"))[0]
    data = bytearray(first.read_bytes())
    data[200:600] = bytes(400)
    first.write_bytes(data)
    run = OpenedRun(copied)
    assert 0 < run.count() < whole
    assert any(first.name in notice and "damaged" in notice for notice in run.data.notices)


def test_a_run_without_rollouts_yet_is_followed(copied: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    (copied / "rollouts").rename(away)
    run = OpenedRun(copied)
    assert run.count() == 0
    away.rename(copied / "rollouts")
    assert look(run).count() == OpenedRun(copied).count() > 0
    assert run.has_tokens


def test_nothing_is_written(copied: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in copied.rglob("*") if p.is_file()}

    before = state()
    run = OpenedRun(copied)
    look(run)
    run.close()
    assert state() == before


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        OpenedRun(tmp_path / "nothing")
    assert OpenedRun(plain_run(tmp_path)).count() > 0


def test_a_file_that_a_resume_wrote_anew_is_prefilled_again(copied: Path) -> None:
    run = OpenedRun(copied)
    first, *_, last = sorted((copied / "rollouts").glob("train-*.parquet"))
    version = run.version
    last.write_bytes(first.read_bytes())
    assert look(run).version != version
    asked = "SELECT * EXCLUDE (file) FROM seen WHERE file = ? ORDER BY ALL"
    assert list(map(str, run.rows(asked, [str(last)]))) == list(map(str, run.rows(asked, [str(first)])))


def test_a_run_whose_files_are_all_set_aside_is_followed_on(copied: Path, tmp_path: Path) -> None:
    run = OpenedRun(copied)
    count = run.count()
    away = tmp_path / "away"
    (copied / "rollouts").rename(away)
    assert look(run).count() == 0
    away.rename(copied / "rollouts")
    assert look(run).count() == count
    assert run.rows("SELECT count(text) AS n FROM texts")[0]["n"] == count


def test_threads_may_ask_at_once(copied: Path) -> None:
    run = OpenedRun(copied)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: (run.has_tokens, look(run).count(), run.data.has("nothing")), range(80)))
    assert set(found) == {(True, run.count(), False)}
