"""The viewer in a real browser: pages at two widths, tokens that answer a click, hostile text that stays text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import pytest
from browsing import Tab, chromium
from hostile import HOSTILE
from plain_rows import row
from viewing import RUN, plain_run

from outrider.model.places import local_tokenizer
from outrider.record import Observation, Rollout, correct, incorrect
from outrider.record.store import RolloutStore
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
    with serving([run], local_tokenizer, port=0) as address:
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
    with serving([OpenedRun(plain_run(tmp_path_factory.mktemp("hurt"), rows))], local_tokenizer, port=0) as address:
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


def test_a_point_of_a_problem_leads_to_its_rollouts_of_that_step(tab: Tab, tmp_path: Path) -> None:
    id = "p & 1/<b>"
    rows = [
        row(split=split, step=step, problem_id=id, group_id=f"{split} {step}", member=member, predicted=0.5)
        for split, step in (("train", 1), ("train", 4), ("evaluate", 0), ("evaluate", 4))
        for member in (0, 1)
    ] + [row(problem_id="another", step=4)]
    with serving([OpenedRun(plain_run(tmp_path, rows))], local_tokenizer, port=0) as address:
        for curve, split, step in (("training", "train", 4), ("evaluations", "evaluate", 0)):
            tab.open(address + "run/0/problem?" + urlencode({"id": id}))
            tab.draw_all()
            names = tab.page.evaluate("document.querySelector('[data-figure=pass-rate]').data.map((one) => one.name)")
            assert [name for name in names if name] == ["training", "evaluations", "predicted"]
            clicked = {"x": step, "y": 0, "data": {"name": curve}}
            tab.page.evaluate(
                "(p) => document.querySelector('[data-figure=pass-rate]').emit('plotly_click', {points: [p]})", clicked
            )
            tab.page.wait_for_url("**/rollouts?**")
            assert dict(parse_qsl(urlsplit(tab.page.url).query)) == {"problem": id, "split": split, "step": str(step)}
            assert tab.page.text_content(".summary b") == "2"
        calm(tab, address)


def test_shares_along_an_axis_are_in_percent_as_in_tables(tab: Tab, site: str) -> None:
    tab.open(site + "run/0/")
    tab.draw_all()
    ticks = "all => all.map(one => one.textContent)"
    shown = tab.page.eval_on_selector_all("[data-figure=groups] .ytick text", ticks)
    assert shown[0] == "0 %"
    assert shown[-1] == "100 %"
    steps = tab.page.eval_on_selector_all("[data-figure=reward] .xtick text", ticks)
    assert all(step.isdecimal() for step in steps)
    tips = "document.querySelector('[data-figure=groups]').data.flatMap((one) => one.hovertext)"
    parts = [float(tip.split("</b> ")[1].removesuffix(" %")) for tip in tab.page.evaluate(tips) if tip]
    steps_shown = len(parts) // 3
    assert [sum(parts[i::steps_shown]) for i in range(steps_shown)] == pytest.approx([100] * steps_shown, abs=0.5)


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


@contextmanager
def growing(folder: Path) -> Iterator[tuple[str, Callable[[], Path]]]:
    """The address of a run that lacks its last step, and what brings that step."""
    run = Path(shutil.copytree(RUN, folder / "run"))
    last = sorted((run / "rollouts").glob("train-*.parquet"))[-1]
    away = last.rename(folder / last.name)
    with serving([OpenedRun(run)], local_tokenizer, port=0) as address:
        yield address, lambda: away.rename(last)


def test_new_data_is_offered(tab: Tab, tmp_path: Path) -> None:
    with growing(tmp_path) as (address, grow):
        tab.open(address + "run/0/")
        assert not tab.page.is_visible("#news")
        grow()
        tab.until("!document.getElementById('news').hidden")
        calm(tab, address)


def test_a_page_that_follows_reads_itself_again(tab: Tab, tmp_path: Path) -> None:
    with growing(tmp_path) as (address, grow):
        tab.open(address + "run/0/rollouts?split=train")
        before = tab.page.text_content(".summary")
        tab.page.check("#follow")
        with tab.page.expect_navigation():
            grow()
        assert tab.page.text_content(".summary") != before
        assert tab.page.is_checked("#follow")
        assert tab.page.url.endswith("?split=train")
        tab.page.uncheck("#follow")
        calm(tab, address)


def test_a_cursor_stands_in_all_curves(tab: Tab, site: str) -> None:
    tab.open(site + "run/0/")
    tab.draw_all()
    plot = tab.page.query_selector("[data-figure=reward]")
    plot.scroll_into_view_if_needed()
    box = tab.page.query_selector("[data-figure=reward] .nsewdrag").bounding_box()
    at = plot.evaluate("plot => plot._fullLayout.xaxis.d2p(2)")  # pixels of step 2
    tab.page.mouse.move(box["x"] + at, box["y"] + box["height"] / 2, steps=3)
    marked = (
        "[...document.querySelectorAll('.plot')].filter((plot) => plot.querySelector('.hoverlayer .legend')).length"
    )
    tab.until(f"{marked} >= 3")
    tab.page.mouse.move(0, 0)
    tab.until(f"{marked} === 0")
    calm(tab, site)


def test_over_tokens_a_point_leads_to_its_step_too(tab: Tab, site: str, run: OpenedRun) -> None:
    tab.open(site + "run/0/?over=tokens")
    tab.draw_all()
    spent = run.rows("SELECT CAST(sum(tokens) AS BIGINT) AS n FROM seen WHERE split = 'train' AND step <= 2")[0]["n"]
    tab.page.evaluate(
        f"document.querySelector('[data-figure=reward]').emit('plotly_click', {{points: [{{x: {spent}, y: 0}}]}})"
    )
    tab.page.wait_for_url("**/rollouts?split=train&step=2")


def test_turns_fold_and_branches_lead_to_their_rollouts(tab: Tab, tmp_path: Path) -> None:
    """Of a run as it is written: the parent of a branch, and a trajectory with an environment's answers."""
    store = RolloutStore(tmp_path / "run" / "rollouts")
    ids = np.arange(3, 13, dtype=np.int32)
    empty = np.zeros(0, np.int32)
    said = (Observation(4, 2, 4, 6, error=True), Observation(8, 0, 8, 8))
    sampled = np.array([True] * 4 + [False] * 2 + [True] * 4)
    shares = np.linspace(-1, 1, 10, dtype=np.float32)
    common = {"problem_id": "p", "group_id": "g", "prompt_ids": ids[:2]}
    root = Rollout(
        member=0, token_ids=ids, logprobs_T=-np.ones(10, np.float32), prefix_ids=empty, trainable_T=sampled,
        observations=said, text="0123456789", advantage=0.0, advantages_T=shares, **common,
    )  # fmt: skip
    branch = Rollout(
        member=1, token_ids=ids[:3], logprobs_T=-np.ones(3, np.float32), prefix_ids=ids[:7], parent="g/0", **common
    )
    store.write(1, [root.verified(incorrect(), 0.0), branch.verified(correct(), 1.0)])
    (tmp_path / "run" / "config.yaml").write_text("model: base:countdown\n")
    with serving([OpenedRun(tmp_path / "run")], local_tokenizer, port=0) as address:
        tab.open(address + "run/0/rollout?split=train&step=1&id=g/0")
        tags = tab.page.eval_on_selector_all("#tokens > *, #tokens details > *", "all => all.map(one => one.tagName)")
        assert tags == [*["SPAN"] * 4, "DETAILS", "SUMMARY", *["SPAN"] * 3, "A", *["SPAN"] * 3]
        assert "error, invalid request" in tab.page.text_content("#tokens summary")
        tab.page.click("#tokens summary")
        assert not tab.page.is_visible("#tokens details span")
        tab.page.check("input[name=colour][value=advantage]")
        colours = tab.page.eval_on_selector_all("#tokens span", "all => all.map(one => one.style.backgroundColor)")
        assert ["vermilion" in one for one in colours] == [
            (share < 0) and told for share, told in zip(shares, sampled, strict=True)
        ]
        assert ["blue" in one for one in colours] == [
            (share > 0) and told for share, told in zip(shares, sampled, strict=True)
        ]
        assert "2 that pass through this token" in tab.page.text_content(".tree title")
        calm(tab, address)
        tab.page.click("#tokens a.branch")
        tab.page.wait_for_url("**id=g%2F1")
        assert "from token 7" in tab.page.text_content(".list")
        calm(tab, address)
