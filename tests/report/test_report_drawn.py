"""A report as it is built, with branches and all sections, in a browser: what it draws, and that its tree opens."""

from __future__ import annotations

import pytest
from browsing import Tab, chromium
from plain_rows import random_rows, run_of_rows

from outrider.report.build import build
from outrider.report.page import render
from outrider.report.plot_data import has_data


@pytest.fixture(scope="module")
def report():
    return build(run_of_rows(random_rows(0, steps=30)))


@pytest.fixture(scope="module")
def tab(report, tmp_path_factory):
    place = tmp_path_factory.mktemp("page") / "report.html"
    place.write_text(render(report))
    with chromium() as browser:
        opened = Tab(browser).open(place.as_uri())
        opened.draw_all()
        yield opened


def test_every_figure_of_a_built_report_is_drawn_without_a_complaint(tab, report):
    figures = [figure for section in (report.opening, *report.sections) for figure in section.figures]
    marks = tab.page.evaluate(
        """[...document.querySelectorAll("figure")].map((figure) =>
           figure.querySelectorAll(".scatterlayer .trace, .barlayer .trace").length)"""
    )
    without = [figure for figure in figures if not has_data(figure)]
    assert tab.page.locator("p.no-data", has_text="no data").count() == len(without) == 1
    figures = [figure for figure in figures if has_data(figure)]
    assert len(marks) == len(figures) > 15
    assert all(count >= len(figure.series) for count, figure in zip(marks, figures, strict=True))
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []


def test_every_section_has_its_chapter_and_the_tree_of_a_branched_group_opens(tab, report):
    chapters = tab.page.evaluate("[...document.querySelectorAll('main > .chapter')].map((c) => c.id)")
    assert chapters == ["opening", "findings", *(section.id for section in report.sections)]
    branched = tab.page.locator(".example", has=tab.page.locator(".fork")).first
    if branched.get_attribute("open") is None:
        branched.locator("> summary").click()
    branch = branched.locator(".fork .node").first
    branch.locator("> summary").click()
    assert branch.locator("> pre").is_visible()
    assert branch.locator("> pre").inner_text()
