"""The page of a report: what stands in the HTML."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import report_sample
from hostile import SHOWN, hostile
from hypothesis import given
from hypothesis import strategies as st

from outrider.report.content import Example, ExampleNode, Figure, Observed, Report, Section, Series
from outrider.report.digits import column, number
from outrider.report.page import forest, render
from outrider.report.plot_data import PALETTE, slots


class Elements(HTMLParser):
    """Start tags with their attributes, and the text of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts[-1] += data

    @property
    def shape(self):
        return [(tag, sorted(attributes)) for tag, attributes in self.tags]


@pytest.fixture(scope="module")
def sample() -> str:
    return render(report_sample.sample())


@pytest.fixture(scope="module")
def attacked() -> str:
    return render(hostile(report_sample.sample()))


# the document


def test_hostile_texts_change_no_element_and_no_attribute(sample, attacked):
    plain, attack = Elements(sample), Elements(attacked)
    assert attack.shape == plain.shape
    theme, plots, plotly, page = range(4)
    for kept in (theme, plotly, page):
        assert attack.scripts[kept] == plain.scripts[kept]
    assert not set("<>&") & set(attack.scripts[plots])  # browsers end a script at more than the parser of this test
    figures = json.loads(attack.scripts[plots])
    assert figures["budget-groups"]["series"][0]["name"] == "solved" + SHOWN


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_be_loaded(sample):
    elements = Elements(sample)
    policy = next(a["content"] for _, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    running = [source for source in elements.scripts if not source.startswith("{")]
    digests = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in running]
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 3
    assert rules["default-src"] == "'none'"
    links = [value for _, a in elements.tags for name, value in a.items() if name in ("src", "href", "action")]
    assert {link[:1] for link in links} == {"#", "d"}  # places in the page, and the empty icon: data:,


def test_every_part_has_an_address_of_its_own_and_every_link_a_target():
    twice = Section("same", "A", "", [Figure("same", "F", "line", "x", "y", []) for _ in range(2)])
    html = render(Report("t", {}, report_sample.findings()[:1] * 2, [], {}, [twice, replace(twice, title="B")]))
    ids = [a["id"] for _, a in Elements(html).tags if "id" in a]
    links = [a["href"][1:] for tag, a in Elements(html).tags if tag == "a"]
    assert len(set(ids)) == len(ids)
    assert set(links) <= set(ids)


def test_facts_and_checks_of_several_runs_are_told_by_run():
    facts = {"a: steps": 3, "b: steps": 4, "b: seed": 1, "version": "1.0"}
    checked = ["a: x", "a: y", "b: x", "b: y"]
    html = render(Report("t", facts, [], checked, {"b: z": "more"}, []))
    cells = [re.sub(r"<[^>]*>", "", row).split() for row in re.findall("<tr>(.*?)</tr>", html, re.DOTALL)]
    assert cells == [["run", "steps", "seed"], ["a", "3"], ["b", "4", "1"]]
    assert "<dt>version</dt><dd>1.0</dd>" in html
    assert "<b>Checked in a, b</b> x, y." in html
    assert "<b>Not checked in b</b> z (needs more)." in html


def test_a_report_of_nothing_is_a_page(sample):
    html = render(Report("", {}, [], [], {}, []))
    assert "No check could be made." in html
    assert "No check could be made." not in sample


def test_numbers_of_numpy_halves_of_surrogates_and_infinities_are_rendered():
    y = list(np.array([1.0, np.nan, np.inf], np.float32))
    figure = Figure("f", "\ud800", "line", "x", "y", [Series("s", list(np.arange(3)), y)])
    html = render(Report("t", {"steps": np.float64(2.5)}, [], [], {}, [Section("s", "S", "", [figure])]))
    html.encode()
    (plot,) = json.loads(next(s for s in Elements(html).scripts if s.startswith("{"))).values()
    assert plot["series"][0]["x"] == [0, 1, 2]
    assert plot["series"][0]["y"] == [1.0, None, None]
    assert ">2.5</dd>" in html


def test_a_forest_is_nested_with_its_branches_in_order_of_their_pivots():
    nodes = [
        ExampleNode("a", None, "", "", ""),
        ExampleNode("b", "a", "", "", "", 7),
        ExampleNode("c", "a", "", "", "", 3),
    ]
    nodes += [ExampleNode("d", "b", "", "", "", 1), ExampleNode("e", "a", "", "", "", 7)]
    nodes += [ExampleNode("orphan", "unknown", "", "", ""), ExampleNode("own", "own", "", "", "")]

    def names(rollouts):
        return [(r.node.id, [(pivot.at, names(pivot.branches)) for pivot in r.pivots]) for r in rollouts]

    b, c, e = ("b", [(1, [("d", [])])]), ("c", []), ("e", [])
    assert names(forest(Example("", "", nodes))) == [("a", [(3, [c]), (7, [b, e])]), ("orphan", []), ("own", [])]


def test_what_was_observed_is_distinguished():
    told = [Observed(0, 2, False), Observed(5, 9, True), Observed(9, 10, False), Observed(10, 10, True)]
    nodes = [ExampleNode("a", None, "", "", "0123456789", observed=told)]
    nodes.append(ExampleNode("b", "a", "", "", "", at=3, cut=7))
    (root,) = forest(Example("", "", nodes))
    assert [tuple(span) for span in root.spans] == [
        ("01", False, True, False),
        ("234", False, False, False),
        ("56", False, True, True),
        ("78", True, True, True),
        ("9", False, True, False),
    ]
    assert forest(Example("", "", [ExampleNode("a", None, "", "", "")]))[0].spans == []


def test_the_text_of_a_parent_is_cut_at_its_pivots_and_around_each_is_shown_what_it_had_there():
    text = "".join(map(str, range(50)))
    cuts = [
        (9, 40),
        (3, 4),
        (9, 40),
        (5, None),
        (60, len(text)),
    ]  # by tokens: characters; of one the place is not known
    nodes = [
        ExampleNode("a", None, "", "", text),
        *(ExampleNode(f"{i}", "a", "", "", "", *cut) for i, cut in enumerate(cuts)),
    ]
    (root,) = forest(Example("", "", nodes))
    assert [(span.pivot, span.text) for span in root.spans] == [
        (False, text[:4]),
        (True, text[4:40]),
        (True, text[40:]),
        (True, ""),
    ]
    around = {pivot.at: (pivot.before, pivot.after) for pivot in root.pivots}
    assert around == {
        3: (text[:4], text[4:32] + "…"),
        5: ("", ""),
        9: ("…" + text[12:40], text[40:68] + "…"),
        60: ("…" + text[-28:], ""),
    }
    (whole,) = forest(Example("", "", nodes[:1]))
    assert ([span.text for span in whole.spans], whole.pivots) == ([text], [])


@given(st.lists(st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10), max_size=5))
def test_a_series_keeps_its_colour_unless_its_plot_has_it_already(plots):
    figures = [Figure("f", "", "line", "", "", [Series(name, [], []) for name in names]) for names in plots]
    found = slots(figures)
    first: dict[str, str] = {}
    for names, colours in zip(plots, found, strict=True):
        assert list(colours) == names
        assert len(set(colours.values())) == min(len(names), len(PALETTE))
        for name in names:
            changed = first.setdefault(name, colours[name]) != colours[name]
            assert not changed or first[name] in [colours[other] for other in names if other != name]


@given(st.floats(-1e300, 1e300))
def test_a_number_is_shown_to_three_digits(value):
    shown = float(number(value).replace(",", ""))
    assert math.isclose(shown, value, rel_tol=0.00501)


@given(st.lists(st.floats(0.01, 9.99) | st.none(), max_size=8))
def test_numbers_of_a_column_have_as_many_decimals_as_each_other(values):
    shown = [cell for cell in column(values) if cell]
    assert len(shown) == sum(value is not None for value in values)
    if any(value is not None and value != int(value) for value in values):
        assert len({len(cell.partition(".")[2]) for cell in shown}) == 1
