"""What the site adds to pages: weights in search, tables as cards on phones, search from disk."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from browsing import Tab, chromium

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/pages"))

import cards  # noqa: E402 - a module of the site's generator
import search_weights  # noqa: E402

NAV = yaml.safe_load(re.sub(r"!!python/\S+ \{.*\}\}", "null}", (ROOT / "mkdocs.yml").read_text()))["nav"]


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as browser:
        yield Tab(browser)


def test_tutorials_come_before_records_in_search() -> None:
    weights = {place: search_weights.weight(place, NAV) for place in ("add-a-component.md", "log.md", "api/credit.md")}
    assert weights["add-a-component.md"]["boost"] > weights["api/credit.md"]["boost"] > weights["log.md"]["boost"]
    assert search_weights.weight("decisions/0005-stages-see-a-view.md", NAV) == {"boost": search_weights.LEAST}
    assert search_weights.weight("repository/src/outrider/errors.py.md", NAV) == {"exclude": True}


def table(cells: list[str]) -> str:
    return "<table><thead><tr><th>name</th><th>why</th></tr></thead><tbody>" + "".join(
        f"<tr><td>a</td><td>{cell}</td></tr>" for cell in cells
    )


def test_a_table_of_texts_names_the_column_of_each_cell() -> None:
    found = cards.with_cards(table(["short", "l" * (cards.LONG_CELL + 1)]) + "</tbody></table>")
    assert found.startswith("<table data-cards>")
    assert re.findall(r'data-label="(.*?)"', found) == ["name", "why"] * 2


def test_a_table_of_numbers_stays_a_table() -> None:
    numbers = table(["0.1", "<code>" + "1" * cards.LONG_CELL + "</code>"]) + "</tbody></table>"
    assert cards.with_cards(numbers) == numbers


def test_a_worker_answers_on_a_page_from_disk(tab: Tab, tmp_path: Path) -> None:
    """As the search of the theme does, which the browser refuses from disk without the frame."""
    shutil.copy(ROOT / "docs/assets/iframe-worker.js", tmp_path)
    (tmp_path / "worker.js").write_text("addEventListener('message', event => postMessage(event.data + 1));")
    (tmp_path / "index.html").write_text(
        "<script src='iframe-worker.js'></script><body><script>window.answers = [];"
        "const worker = new Worker('worker.js');"
        "worker.addEventListener('message', event => { answers.push(event.data); if (answers.length < 3)"
        " worker.postMessage(event.data); }); worker.postMessage(1);</script>"
    )
    tab.open((tmp_path / "index.html").as_uri())
    tab.until("answers.length === 3")
    assert tab.page.evaluate("answers") == [2, 3, 4]
    assert tab.complaints == []
