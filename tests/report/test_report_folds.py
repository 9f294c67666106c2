"""The folds of a page in a browser: what is seen before unfolding, links, keyboard, and a browser without scripts."""

from __future__ import annotations

import pytest
import report_sample
from plain_rows import random_rows, row, run_of_rows

from outrider.report.build import build
from outrider.report.page import render

TALLEST = 3000  # pixels at a width of 1300, before unfolding
OPEN = "[...document.querySelectorAll('details.fold')].filter((fold) => fold.open).map((fold) => fold.dataset.key)"


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """The addresses of a built report with every section, and of the sample."""
    folder = tmp_path_factory.mktemp("page")
    outcomes = ("incorrect", "correct")
    held_out = [
        row(split="evaluate", step=step, problem_id=f"h{p}", member=m, outcome=outcomes[m < (p + step) % 9])
        for step in (0, 30)
        for p in range(40)
        for m in range(8)
    ]
    (folder / "built.html").write_text(render(build(run_of_rows([*random_rows(0, steps=30), *held_out]))))
    (folder / "sample.html").write_text(render(report_sample.sample()))
    return {path.stem: path.as_uri() for path in folder.iterdir()}


def test_the_page_is_short_before_unfolding_and_begins_with_the_answer(tab, at):
    tab.open(at["built"])
    tab.until("document.querySelector('#opening-reward .plot').classList.contains('drawn')")
    assert tab.page.evaluate("document.documentElement.scrollHeight") < TALLEST
    assert tab.page.evaluate("document.querySelectorAll('details.fold').length") > 8
    assert tab.page.locator(".plot.drawn").count() == 1  # the others are drawn when they can be seen
    bottoms = {
        name: tab.page.locator(name).bounding_box()["y"] + tab.page.locator(name).bounding_box()["height"]
        for name in (".headline", "#opening-pass-at-k", "#opening-budget", "#opening-reward")
    }
    assert max(bottoms.values()) < 1100, bottoms
    boxes = "[...document.querySelectorAll('.opening .scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    assert tab.page.evaluate(boxes) == [0, 0]  # both tables fit beside each other
    assert tab.complaints == []


def test_a_phone_shows_the_whole_page_within_its_width(tab, at):
    tab.open(at["built"])
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.page.locator("#expand").click()
    tab.until("!document.querySelector('.plot:not(.drawn)')")
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 390
    assert tab.page.evaluate("document.querySelector('#opening-pass-at-k .scroll').scrollWidth") <= 390
    stays = """(() => { const box = document.querySelector('#budget-budget-stages .scroll'); box.scrollLeft = 150;
        return box.querySelector('td').getBoundingClientRect().left - box.getBoundingClientRect().left; })()"""
    assert tab.page.evaluate(stays) == pytest.approx(1, abs=1)  # the first column: what a row is of
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert tab.complaints == []


def test_a_link_opens_the_fold_that_it_leads_into(tab, at):
    tab.page.goto("about:blank")  # another place of an open page would not load it anew
    tab.open(at["sample"] + "#entropy")
    assert tab.page.evaluate(OPEN) == ["entropy"]
    tab.page.locator("#contents a", has_text="Coverage").click()
    tab.until(f"{OPEN}.length === 2")
    assert tab.page.evaluate(OPEN) == ["frontier", "entropy"]
    tab.page.goto("about:blank")
    tab.open(at["sample"] + "#budget-stages")  # a chart within a fold
    assert tab.page.evaluate(OPEN) == ["budget"]
    tab.until("document.querySelector('#budget-stages .plot').classList.contains('drawn')")
    tab.page.locator("#budget .fold > summary").click()
    assert tab.page.evaluate(OPEN) == []
    tab.page.evaluate("location.hash = '#nothing-of-that-name'")
    assert tab.complaints == []


def test_all_folds_open_by_keyboard(tab, at):
    tab.open(at["sample"])
    tab.page.locator("#expand").focus()
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate(OPEN) == ["budget", "frontier", "entropy", "examples"]
    tab.until("document.getElementById('expand').textContent === 'Fold all'")
    tab.until("!document.querySelector('.plot:not(.drawn)')")
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate(OPEN) == []
    summary = tab.page.locator("#entropy .fold > summary")
    summary.focus()
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate(OPEN) == ["entropy"]


def test_a_plot_has_the_width_and_the_colours_of_the_moment_at_which_its_fold_opens_again(tab, at):
    tab.page.goto("about:blank")
    tab.open(at["sample"] + "#entropy-exchange")
    tab.until("document.querySelector('#entropy-exchange .plot').classList.contains('drawn')")
    tab.page.locator("#entropy .fold > summary").click()
    tab.page.set_viewport_size({"width": 700, "height": 900})
    tab.page.locator("#theme").click()
    tab.page.locator("#entropy .fold > summary").click()
    plot = "document.querySelector('#entropy-exchange .plot')"
    tab.until(f"{plot}.classList.contains('drawn')")
    tab.until(f"{plot}.querySelector('.main-svg').clientWidth === {plot}.clientWidth")
    assert tab.page.evaluate(f"{plot}.layout.paper_bgcolor") == "#191c20"
    tab.page.locator("#theme").click()
    tab.page.locator("#entropy .fold > summary").click()
    tab.page.set_viewport_size({"width": 1000, "height": 900})  # the width alone has changed
    tab.page.wait_for_timeout(500)  # a resize is seen by plots that are in sight, a moment later
    tab.page.locator("#entropy .fold > summary").click()
    tab.until(f"{plot}.querySelector('.main-svg').clientWidth === {plot}.clientWidth")


def test_ids_lead_to_rollouts_of_the_page_or_give_the_command_that_shows_them(tab, at):
    tab.page.goto("about:blank")
    tab.open(at["sample"] + "#examples")
    ids = tab.page.locator("#examples-places .id")
    tree = "examples-failed-first-solved-from-a-pivot-countdown-2-6-8-9-10-15"
    assert [one.get_attribute("href") for one in ids.all()] == [f"#{tree}", f"#{tree}", None, None]
    assert [one.get_attribute("data-command") for one in ids.all()[2:]] == [
        "outrider show runs/a --step 13 --problem 'countdown:2,6,8,9,10>15'",
        "outrider show runs/a --name evaluate --step 105 --problem 'it'\"'\"'s'",
    ]
    tab.page.locator(f"#{tree} > summary").click()
    ids.first.click()
    assert tab.page.locator(f"#{tree}").get_attribute("open") is not None
    ids.last.locator("button").click()
    tab.until("!document.getElementById('said').hidden")
    assert tab.page.locator("#said code").inner_text().endswith("--step 105 --problem 'it'\"'\"'s'")
    assert tab.page.locator(".hint").count() == 1  # what ids do is said once
    shares = tab.page.locator("#examples-places td.number").all_inner_texts()
    assert shares == ["25.0 %", "50.0 %", "0.004 %", ""]


def test_folds_work_without_scripts(browser, at):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(at["sample"])
    text = page.locator("#frontier-problems")
    assert not text.is_visible()
    assert page.locator(".headline").inner_text().startswith("Exploration is failing")
    assert not page.locator("#expand").is_visible()
    page.locator("#frontier .fold > summary").click()
    assert text.is_visible()
