"""The viewer in a real browser: pages at two widths, tokens that answer a click, hostile text that stays text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browsing import Tab, chromium
from hostile import HOSTILE
from plain_rows import row
from viewing import RUN, plain_run

from outrider.model.places import model_folder
from outrider.view.opened_run import OpenedRun
from outrider.view.view_command import serving

pytest.importorskip("playwright")


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as browser:
        yield Tab(browser)


@pytest.fixture(scope="module")
def run() -> OpenedRun:
    return OpenedRun(RUN)


@pytest.fixture(scope="module")
def site(run: OpenedRun) -> Iterator[str]:
    with serving([run], model_folder, port=0) as address:
        yield address


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    text = HOSTILE.replace("\ud800", "") + " $\\href{javascript:hurt}{x}$ [a](javascript:window.hurt=5)"
    rows = [
        row(step=step, member=member, problem_id=text, prompt=text, text=text, level=text, answer=text, detail=text)
        | {"outcome": outcome}
        for step in (1, 2)
        for member, outcome in ((0, "correct"), (1, "incorrect"))
    ]
    with serving([OpenedRun(plain_run(tmp_path_factory.mktemp("hurt"), rows))], model_folder, port=0) as address:
        yield address


def rollout_address(run: OpenedRun) -> str:
    first = run.rows("SELECT * FROM seen WHERE split = 'train' ORDER BY step, group_id, member LIMIT 1")[0]
    return "run/0/rollout?" + urlencode(
        {"split": "train", "step": first["step"], "id": f"{first['group_id']}/{first['member']}"}
    )


def calm(tab: Tab, site: str) -> None:
    """The page complained of nothing and asked nobody but its own server."""
    assert tab.complaints == []
    assert all(request.startswith((site, "data:", "blob:")) for request in tab.requests), tab.requests


@pytest.mark.parametrize("width", [1300, 390])
def test_every_page_fits_and_is_calm(tab: Tab, site: str, run: OpenedRun, width: int) -> None:
    problem = run.rows("SELECT problem_id FROM seen WHERE split = 'train' LIMIT 1")[0]["problem_id"]
    pages = ["run/0/", "run/0/rollouts", "run/0/problems", rollout_address(run)]
    for page in [*pages, "run/0/problem?" + urlencode({"id": problem})]:
        tab.open(site + page)
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page
        if page == "run/0/":
            tab.draw_all()
            tab.until("!document.querySelector('#findings .lead')")
        calm(tab, site)


def test_a_token_tells_its_numbers(tab: Tab, site: str, run: OpenedRun) -> None:
    tab.open(site + rollout_address(run))
    tab.page.click("#tokens span >> nth=2")
    told = tab.page.text_content("#token") or ""
    assert told.startswith("token 3 of ")
    assert "log-probability" in told
    assert "entropy" in told
    tab.page.press("#tokens", "ArrowRight")
    assert (tab.page.text_content("#token") or "").startswith("token 4 of ")
    assert tab.page.eval_on_selector_all("#tokens span", "all => all.some(one => one.style.backgroundColor)")
    tab.page.check("input[name=colour][value=none]")
    assert not tab.page.eval_on_selector_all("#tokens span", "all => all.some(one => one.style.backgroundColor)")
    tab.page.check("input[name=shown][value=read]")
    assert tab.page.is_visible("#read")
    assert not tab.page.is_visible("#tokens")
    calm(tab, site)


def test_a_point_of_a_curve_leads_to_the_rollouts_of_its_step(tab: Tab, site: str) -> None:
    tab.open(site + "run/0/")
    tab.draw_all()
    tab.page.evaluate("document.querySelector('[data-figure=reward]').emit('plotly_click', {points: [{x: 2, y: 0}]})")
    tab.page.wait_for_url("**/rollouts?split=train&step=2")
    assert "step" in (tab.page.text_content("h1 ~ form") or "")


def test_filters_of_the_form_are_in_the_address(tab: Tab, site: str) -> None:
    tab.open(site + "run/0/rollouts")
    tab.page.select_option("select[name=split]", "train")
    tab.page.fill("input[name=step]", "1..2")
    tab.page.click("text=Show")
    tab.page.wait_for_url("**split=train**")
    assert "step=1..2" in tab.page.url
    splits = "all => [...new Set(all.map(one => one.textContent))]"
    assert tab.page.eval_on_selector_all("tbody td:first-child", splits) == ["train"]
    assert tab.page.input_value("input[name=step]") == "1..2"


def test_hostile_text_does_nothing(tab: Tab, hostile_site: str) -> None:
    for page in ("run/0/", "run/0/rollouts", "run/0/problems"):
        tab.open(hostile_site + page)
        calm(tab, hostile_site)
    for link in ("/rollout?", "/problem?"):
        tab.open(hostile_site + "run/0/rollouts")
        tab.page.click(f"a[href*='{link}'] >> nth=0")
        tab.page.wait_for_url(f"**{link}**")
        if link == "/rollout?":
            tab.page.check("input[name=shown][value=read]")
            assert tab.page.is_visible("#read")
            assert tab.page.query_selector("#read a, #read img, #read script") is None
            assert "onerror" in (tab.page.text_content("pre.response") or "")
        assert tab.page.evaluate("window.hurt") is None
        calm(tab, hostile_site)


def test_new_data_is_offered(tab: Tab, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    last = sorted((folder / "rollouts").glob("train-*.parquet"))[-1]
    away = tmp_path / last.name
    last.rename(away)
    with serving([OpenedRun(folder)], model_folder, port=0) as address:
        tab.open(address + "run/0/")
        assert not tab.page.is_visible("#news")
        away.rename(last)
        tab.until("!document.getElementById('news').hidden")
        calm(tab, address)
