"""A search for a text answers with what it has found so far, and finds everything in the end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from plain_rows import row, table
from viewing import client_of

from outrider.view.listing import listing
from outrider.view.opened_run import OpenedRun
from outrider.view.rollout_filter import PAGE, RolloutFilter
from outrider.view.text_search import AT_A_TIME, TextSearch

FILES = 3 * AT_A_TIME + 1


class HeldUp:
    """Finds files one batch at a time, each when it is let."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.let = threading.Semaphore(0)

    def __call__(self, files: Sequence[str]) -> None:
        self.let.acquire()
        self.found += files


def test_a_page_gets_what_was_found_so_far() -> None:
    names, held = [str(i) for i in range(FILES)], HeldUp()
    search = TextSearch("t", names, held)
    assert search.searched(0.01) == (0, FILES)
    held.let.release()
    while search.searched(0.01).done < AT_A_TIME:
        pass
    assert not search.searched(0.01).whole
    assert held.found == names[:AT_A_TIME]
    held.let.release(10)
    assert search.searched(None) == (FILES, FILES)
    assert search.searched(None).whole
    assert held.found == names


def test_a_search_that_is_cancelled_reads_no_further() -> None:
    held = HeldUp()
    search = TextSearch("t", [str(i) for i in range(FILES)], held)
    held.let.release()
    canceller = threading.Thread(target=search.cancel)
    while search.searched(0.01).done < AT_A_TIME:
        pass
    canceller.start()
    held.let.release()
    canceller.join()
    assert len(held.found) < FILES


def test_what_cannot_be_read_is_said() -> None:
    def fails(files: Sequence[str]) -> None:
        raise duckdb.IOException("gone")

    search = TextSearch("t", ["a"], fails)
    with pytest.raises(duckdb.IOException, match="gone"):
        search.searched(None)


def test_an_empty_search_is_whole() -> None:
    assert TextSearch("t", [], lambda _: None).searched(None).whole


def many_files(folder: Path) -> Path:
    (folder / "rollouts").mkdir()
    for step in range(FILES):
        rows = [row(step=step, member=i, text=f"{'even' if (step + i) % 2 == 0 else 'odd'} {step}") for i in (0, 1)]
        pq.write_table(table(rows), folder / "rollouts" / f"{step:03}.parquet")
    return folder


def test_all_files_are_searched_and_exports_wait_for_it(tmp_path: Path) -> None:
    run = OpenedRun(many_files(tmp_path))
    found = client_of(run).get("/run/0/export?format=csv&text=even").text.splitlines()
    assert len(found) == 1 + FILES
    whole = listing(run, RolloutFilter.of({"text": "even"}))
    assert whole.searched is not None
    assert whole.searched.whole
    assert whole.total == FILES
    assert [one["step"] for one in whole.rows] == list(range(PAGE))
    assert "data-searching" not in client_of(run).get("/run/0/rollouts?text=even").text


def test_a_page_says_how_far_its_search_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, let = OpenedRun(many_files(tmp_path)), threading.Event()
    find = run._find

    def held_up(name: str, text: str, files: Sequence[str]) -> None:
        find(name, text, files)
        let.wait()

    monkeypatch.setattr(run, "_find", held_up)
    page = client_of(run).get("/run/0/rollouts?text=even&step=0..40").text
    assert "data-searching" in page
    assert "Texts of 0 of 41 files have been searched so far" in page
    let.set()
    run.close()
