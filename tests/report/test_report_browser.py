"""The page of a report in a browser: what a reader can do with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import report_sample
from browsing import Tab
from hostile import SHOWN, hostile

from outrider.report.content import Figure, Report, Section, Series, TableBlock
from outrider.report.page import render


@pytest.fixture(scope="module")
def sample() -> str:
    return render(report_sample.sample())


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """The address of a page in a file."""

    def write(html: str) -> str:
        path = tmp_path_factory.mktemp("page") / "report.html"
        path.write_text(html)
        return path.as_uri()

    return write


@pytest.fixture(scope="module")
def sample_at(at, sample) -> str:
    return at(sample)


@pytest.fixture
def wide(tab, sample_at) -> Tab:
    """The sample with all folds open and all plots drawn, left as the test before left it."""
    if tab.page.url.partition("#")[0] != sample_at:
        tab.open(sample_at)
        tab.page.locator("#expand").click()
        height = tab.page.evaluate("document.body.scrollHeight")
        tab.draw_all()
        assert tab.page.evaluate("document.body.scrollHeight") == height  # nothing moves while one reads
    return tab


def quiet(tab: Tab) -> bool:
    """No complaint, and nothing asked for but the file itself and data in it."""
    asked = {url for url in tab.requests if not url.startswith(("data:", "blob:"))}
    assert (tab.complaints, asked) == ([], {tab.page.url})
    return True


def test_every_plot_is_drawn_with_all_of_its_series_and_nothing_is_asked_of_the_network(wide):
    drawn = {
        figure["id"]: figure["traces"]
        for figure in wide.page.evaluate(
            """[...document.querySelectorAll(".plot")].map((plot) => ({id: plot.dataset.figure, traces:
               plot.querySelectorAll(".scatterlayer .trace, .barlayer .trace").length}))"""
        )
    }
    # a line with a band is two traces
    assert drawn == {
        "opening-reward": 1, "budget-groups": 3, "budget-stages": 2, "frontier-frontier": 4,
        "entropy-entropy": 4, "entropy-exchange": 2, "entropy-categories": 2,
    }  # fmt: skip
    assert wide.page.locator("#entropy-missing").inner_text() == "Entropy by position: no data"
    assert wide.page.locator("#entropy-missing").bounding_box()["height"] < 40  # a line of text and no empty box
    assert wide.page.locator("#entropy-entropy .unit").inner_text() == "nats per token"  # intervals need no mean
    assert quiet(wide)


def test_findings_come_first_with_their_severity_in_words_and_their_reasons_on_request(wide):
    chapters = wide.page.evaluate("[...document.querySelectorAll('main > section')].map((s) => s.id)")
    assert chapters[:2] == ["opening", "findings"]
    finding = wide.page.locator("#findings .finding").first
    assert finding.locator(".severity").inner_text() == "Act"
    assert finding.locator(".run").inner_text() == "explore-grpo"
    assert not finding.locator(".evidence").is_visible()
    finding.locator("summary").click()
    assert "share of groups without success\t0.617" in finding.locator(".evidence").inner_text()
    assert "needs an evaluation with n >= 8" in wide.page.locator(".checks").inner_text()


def test_tables_are_aligned_and_sorted_by_a_click(wide):
    table = wide.page.locator("#budget-stages-2 table")
    assert wide.style("#budget-stages-2 td:nth-child(1)", "textAlign") == "start"
    assert wide.style("#budget-stages-2 td:nth-child(2)", "textAlign") == "right"
    first = table.locator("tbody tr:first-child td:first-child")
    assert first.inner_text() == "0-uniform"
    table.locator("button", has_text="success").click()
    assert first.inner_text() == "1-branch"  # 0.1177 < 0.413
    table.locator("button", has_text="success").click()
    assert first.inner_text() == "0-uniform"
    problems = wide.page.locator("#frontier-problems table")
    for _ in ("up", "down"):  # what is missing is last either way
        problems.locator("button", has_text="after").click()
        shown = [cell == "" for cell in problems.locator("td:nth-child(4)").all_inner_texts()]
        assert shown == [False] * 16 + [True] * 8


def test_the_legend_takes_a_series_out_and_a_double_click_leaves_it_alone(wide):
    figure = wide.page.locator("#entropy-exchange")
    points = figure.locator(".scatterlayer .trace")
    one, other = figure.locator(".legend button").all()
    one.click()
    assert (points.count(), one.get_attribute("aria-pressed")) == (1, "false")
    one.click()
    assert points.count() == 2
    other.dblclick()
    assert [b.get_attribute("aria-pressed") for b in (one, other)] == ["false", "true"]
    other.dblclick()
    assert points.count() == 2


def test_no_button_of_a_plot_sends_data_anywhere(wide):
    titles = {button.get_attribute("data-title") for button in wide.page.locator(".modebar-btn").all()}
    assert titles == {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}


def test_a_point_says_its_numbers_and_its_text_under_the_mouse(wide):
    point = wide.page.locator("#entropy-exchange .point").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    label = wide.page.locator("#entropy-exchange .hoverlayer .hovertext")
    label.wait_for()
    assert "explore-grpo" in label.text_content()
    assert "step 1" in label.text_content()


def test_a_tree_opens_by_mouse_and_by_keyboard(wide):
    tree = wide.page.locator("#examples .tree").first
    nodes = tree.locator(".node")
    assert [pivot.inner_text().splitlines() for pivot in tree.locator(".pivot").all()] == [
        ["1 branch before token 18", "2+10=12,8 6 9 12;6+9=15,8 12 15;12+15=27,8 27…"],
        ["2 branches before token 42", "… 12;6+9=15,8 12 15;12+15=27,8 27;27-8=19"],
        ["1 branch before token 12"],
        ["1 branch from the start"],
    ]
    text = nodes.nth(1).locator("pre")
    assert not text.is_visible()
    nodes.nth(1).locator("summary").click()
    assert text.is_visible()
    assert text.inner_text() == report_sample.tree().nodes[1].text
    assert text.locator(".cut").count() == 2  # where branches leave it, and nothing of it is lost
    assert all(mark.is_visible() for mark in text.locator(".cut").all())
    wide.page.keyboard.press("ArrowDown")
    wide.page.keyboard.press("Enter")
    assert nodes.nth(2).locator("pre").is_visible()
    wide.page.keyboard.press("ArrowLeft")
    assert not nodes.nth(2).locator("pre").is_visible()
    wide.page.keyboard.press("ArrowRight")
    assert nodes.nth(2).locator("pre").is_visible()
    assert [badge.inner_text() for badge in tree.locator(".outcome").all()][:5] == [
        "incorrect", "incorrect", "unparseable", "incorrect", "correct",
    ]  # fmt: skip


def test_a_phone_scrolls_down_only_and_wide_tables_in_their_box(wide):
    wide.page.set_viewport_size({"width": 390, "height": 844})
    wide.until("[...document.querySelectorAll('.main-svg')].every((svg) => svg.clientWidth < 390)")
    assert wide.page.evaluate("document.documentElement.scrollWidth") == 390
    box = "document.querySelector('#budget-stages-2 .scroll')"
    assert wide.page.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    lefts = wide.page.evaluate("[...document.querySelectorAll('figure')].map((f) => f.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1


def test_dark_is_followed_and_the_switch_is_remembered(tab, at):
    light, dark = "rgb(247, 247, 245)", "rgb(18, 20, 23)"
    tab.open(at(render(Report("t", {}, [], [], {}, []))), color_scheme="dark")
    assert tab.style("body", "backgroundColor") == dark
    tab.page.locator("#theme").click()
    assert tab.style("body", "backgroundColor") == light
    tab.page.reload()
    assert tab.style("body", "backgroundColor") == light
    tab.page.locator("#theme").click()  # back to what the system says, and to following it
    assert tab.style("body", "backgroundColor") == dark
    tab.page.emulate_media(color_scheme="light")
    tab.until("document.documentElement.dataset.theme === 'light'")
    assert quiet(tab)


@pytest.fixture(scope="module")
def small_attack() -> str:
    """Something hostile in every kind of text that a browser shows: two plots are as good as six."""
    report = report_sample.sample()
    budget, entropy = report_sample.budget(), report_sample.entropy()
    parts = [replace(budget, figures=budget.figures[:1]), replace(entropy, figures=entropy.figures[1:2])]
    return render(hostile(replace(report, sections=[*parts, report_sample.examples()])))


def test_hostile_text_is_read_and_never_run(tab, at, small_attack):
    tab.open(at(small_attack))
    tab.draw_all()
    assert tab.page.locator(".prompt").first.text_content() == report_sample.tree().prompt + SHOWN
    assert tab.page.locator(".legend button").first.text_content() == "solved" + SHOWN
    point = tab.page.locator("#entropy-exchange .point").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    tab.page.locator("#entropy-exchange .hovertext").wait_for()
    assert "<script>window.hurt" in tab.page.locator("#entropy-exchange .hovertext").text_content()
    assert tab.page.evaluate("window.hurt") is None
    assert tab.page.locator(".plot a, .plot image[href^=http]").count() == 0
    assert quiet(tab)


def test_what_slips_through_is_stopped_by_the_policy(tab, at):
    harm = "<footer><script>window.hurt = 1</script><img src=x onerror=hurt=2>"
    tab.open(at(render(Report("t", {}, [], [], {}, [])).replace("<footer>", harm)))
    assert tab.page.evaluate("window.hurt") is None
    assert len([text for text in tab.complaints if "Content Security Policy" in text]) == 3  # script, picture, handler


@pytest.fixture(scope="module")
def odd_at(at) -> str:
    """What a run may have and the sample has not: gaps, more series than colours, nothing; and length."""
    y = [1.0, 2.0, math.nan, 3.0, math.nan, *map(float, range(30))]
    line = Figure("f", "F", "line", "x", "y", [Series("s", list(range(35)), y)])
    shares = [Series("a", [1, 2, 3], [0.5, math.nan, 0.5]), Series("b", [1, 2, 3], [0.5, 0.5, 0.5])]
    figures = [line, Figure("g", "G", "stack", "x", "y", shares)]
    figures += [Figure("never", "N", "line", "x", "y", [Series("s", [1, 2], [0.0, 0.0])])]
    section = Section("s", "S", "", figures, [TableBlock("t", "T", ["a"], [])])
    healthy = report_sample.healthy()
    return at(render(replace(healthy, sections=[section, *healthy.sections, *report_sample.long(4).sections])))


DRAWN = "[...document.querySelectorAll('.plot.drawn')].map((plot) => plot.closest('.folded').id)"
FOLDS = "[...document.querySelectorAll('details.fold')].map((fold) => fold.open)"


@pytest.fixture
def odd(tab, odd_at) -> Tab:
    """That page: its first fold opened by the reader, then printed, then all folds opened."""
    if tab.page.url != odd_at:
        tab.open(odd_at)
        tab.drawn = {"at first": tab.page.evaluate(DRAWN)}
        tab.page.locator("#s .fold > summary").click()
        tab.until("document.querySelectorAll('.plot.drawn').length === 3")
        tab.drawn["first fold"] = tab.page.evaluate(DRAWN)
        tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        tab.printed = tab.page.evaluate("[...document.querySelectorAll('.main-svg')].map((s) => s.clientWidth)")
        tab.drawn["paper"] = tab.page.evaluate(DRAWN)
        tab.folds = {"paper": tab.page.evaluate(FOLDS)}
        tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
        tab.folds["after"] = tab.page.evaluate(FOLDS)
        tab.draw_all()
    return tab


def test_a_fold_is_drawn_when_it_opens_and_every_fold_for_paper(odd):
    assert odd.drawn == {
        "at first": [],
        "first fold": ["s"] * 3,
        "paper": ["s"] * 3 + ["levels"] + ["plots-2"] * 4,
    }
    assert odd.folds == {"paper": [True] * 3, "after": [True, False, False]}
    assert min(odd.printed) > 0
    assert max(odd.printed) <= 672
    assert odd.page.locator("html.printing").count() == 0
    fits = "(plot) => plot.querySelector('.main-svg').clientWidth === plot.clientWidth"
    odd.until(f"[...document.querySelectorAll('.plot')].every({fits})")
    assert quiet(odd)


def test_plots_follow_the_colours_of_the_page(odd):
    line = "#s-f .js-line"
    for scheme, colour in (("light", "rgb(0, 114, 178)"), ("dark", "rgb(79, 168, 222)"), ("light", "rgb(0, 114, 178)")):
        odd.page.emulate_media(color_scheme=scheme)
        odd.until(f"getComputedStyle(document.querySelector('{line}')).stroke === '{colour}'")


def test_more_series_than_colours_differ_in_their_dashes(odd):
    looks = odd.page.evaluate(
        """[...document.querySelectorAll("#levels-levels .js-line")].map(
           (line) => getComputedStyle(line).stroke + line.style.strokeDasharray)"""
    )
    assert len(set(looks)) == len(looks) / 2 == 9  # steps, and their mean
    assert "all 2 checks found no problem" in odd.page.locator("#findings").inner_text()


def test_steps_get_a_running_mean_that_is_said(odd):
    steps, mean = odd.page.evaluate("document.querySelector('#levels-levels .plot').data.slice(0, 2).map((t) => t.y)")
    assert steps == pytest.approx(report_sample.wave(0.1, 0.0), rel=1e-5)
    assert [mean[0], mean[50], mean[-1]] == pytest.approx(
        [sum(steps[:6]) / 6, sum(steps[45:56]) / 11, sum(steps[-6:]) / 6]  # of many series 105 // 20 = 5 on either side
    )
    assert odd.page.locator("#levels-levels .unit").inner_text() == "success (thick: running mean of 11)"


def test_what_never_happened_is_drawn_at_the_foot_of_its_plot(odd):
    assert odd.page.evaluate("document.querySelector('#s-never .plot').layout.yaxis.range") == [0, 1]


def test_gaps_stay_gaps_and_a_lonely_point_is_seen(odd):
    assert odd.page.locator("#s-f .js-line").count() == 3
    sizes = odd.page.evaluate("document.querySelector('#s-f .plot').data[0].marker.size")
    assert [i for i, size in enumerate(sizes) if size] == [3]
    assert odd.page.evaluate("document.querySelector('#s-g .plot').data.map((t) => t.x)") == [[1, 3], [1, 3]]
    assert odd.page.locator("#s-t").inner_text() == "T: no rows"
