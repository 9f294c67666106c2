"""The list of problems: what became of each, which were trained on, filters with counts, and the chart of one."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from plain_rows import random_rows, row
from viewing import client_of, plain_run

from outrider.view.opened_run import OpenedRun, Row
from outrider.view.problem import interval, problem_history
from outrider.view.problem_chart import pass_rates
from outrider.view.problem_filter import KINDS, ORDERS, USES, ProblemFilter
from outrider.view.problems import problems


def group(split: str, problem: str, step: int, successes: int, n: int = 4, **rest: object) -> list[Row]:
    return [
        row(split=split, step=step, problem_id=problem, member=i, outcome=("incorrect", "correct")[i < successes])
        | rest
        for i in range(n)
    ]


COURSES = {  # successes of four rollouts at steps 1, 2 and 3
    "lost": (2, 1, 0), "newly solved": (0, 1, 2), "never solved": (0, 0, 0), "still solved": (1, 0, 4),
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> OpenedRun:
    """Every kind in every use, at two levels; more held out than a page shows."""
    rows = []
    for kind, course in COURSES.items():
        for level in ("1", "2"):
            for step, successes in enumerate(course, 1):
                for split, name in (("train", "t"), ("evaluate", "h"), ("evaluate", "b")):
                    rows += group(split, f"{name} {kind} {level}", step, successes, level=level)
                rows += group("train", f"b {kind} {level}", step, 4, level=level)
    rows += [row(problem_id="unknown", outcome=None, level="2")]
    rows += [each for i in range(150) for each in group("evaluate", f"more {i}", 1, 0, n=8, level="1")]
    # yardsticks, which are in no number
    rows += [row(split="greedy", step=3, problem_id="h never solved 1", outcome="correct", stage="greedy", level="1")]
    return OpenedRun(plain_run(tmp_path_factory.mktemp("problems"), rows))


def test_each_problem_has_the_kind_of_its_course_and_its_use(run: OpenedRun) -> None:
    of = {row["problem_id"]: row for page in (1, 2) for row in problems(run, ProblemFilter(page=page)).rows}
    uses = {"t": "trained on", "h": "held out", "b": "trained on and evaluated"}
    for kind in COURSES:
        for letter, use in uses.items():
            found = of[f"{letter} {kind} 1"]
            assert (found["kind"], found["use"]) == (kind, use)
    assert of["unknown"]["kind"] == "not verified"
    assert of["h never solved 1"]["rollouts"] == 12
    assert (of["b lost 1"]["rollouts"], of["b lost 1"]["split"], of["b lost 1"]["change"]) == (24, "evaluate", -0.5)
    assert {row["kind"] for row in of.values()} == {*KINDS}
    assert {row["use"] for row in of.values()} == {*USES}


def test_counts_are_what_each_value_would_show(run: OpenedRun) -> None:
    for chosen in (ProblemFilter(), ProblemFilter({"kind": "lost"}), ProblemFilter({"use": "held out", "level": "1"})):
        found = problems(run, chosen)
        assert [*found.counts] == ["use", "kind", "level"]
        for name, counts in found.counts.items():
            for value, n in counts:
                assert problems(run, ProblemFilter(dict(chosen.filters) | {name: value})).total == n
            without = {other: value for other, value in chosen.filters.items() if other != name}
            assert problems(run, ProblemFilter(without)).total == sum(n for _, n in counts)


def test_problems_trained_on_take_turns_with_those_held_out(run: OpenedRun) -> None:
    """150 held-out problems of as many rollouts or more, none of which dropped, do not push the others off the page."""
    first = problems(run, ProblemFilter())
    assert first.total == 4 * 2 * 3 + 1 + 150
    assert {row["kind"] for row in first.rows[:6]} == {"lost"}
    listed = [row["problem_id"] for page in (1, 2) for row in problems(run, ProblemFilter(page=page)).rows]
    assert len(set(listed)) == first.total
    shown = [row["problem_id"] for row in first.rows]
    assert [name for name in listed if "more" not in name] == [name for name in shown if "more" not in name]


def test_the_page_links_its_filters_and_the_address_holds_them(run: OpenedRun) -> None:
    client = client_of(run)
    page = client.get("/run/0/problems", params={"kind": "lost", "level": "2", "order": "most rollouts"}).text
    assert re.findall(r'aria-current="true">([^<]+)<', page) == ["all (3)", "lost (3)", "2 (3)", "most rollouts"]
    assert "<b>3</b> problems match" in page
    address = next(
        link for link, words in re.findall(r'href="\?([^"]*)"[^>]*>([^<]*)<', page) if words == "held out (1)"
    )
    asked = dict(parse_qsl(html.unescape(address)))
    assert asked == {"use": "held out", "kind": "lost", "level": "2", "order": "most rollouts"}
    table = client.get("/run/0/problems", params=asked).text.partition("<tbody>")[2].partition("</tbody>")[0]
    assert re.findall(r'problem\?id=[^"]*">([^<]*)</a>', table) == ["h lost 2"]


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_lists_every_problem_once(tmp_path: Path, order: str) -> None:
    rows = [each | {"tokens": None} for each in random_rows(3)] + random_rows(4, steps=2)
    of_run = OpenedRun(plain_run(tmp_path, rows))
    listed = [each["problem_id"] for each in problems(of_run, ProblemFilter(order=order)).rows]
    assert sorted(listed) == sorted({each["problem_id"] for each in rows})


def test_too_many_levels_are_a_field(tmp_path: Path) -> None:
    rows = [row(problem_id=f"p{i}", level=f"level {i}") for i in range(60)]
    of_run = OpenedRun(plain_run(tmp_path, rows))
    page = client_of(of_run).get("/run/0/problems", params={"level": "level 7", "kind": "never solved"}).text
    assert '<input name="level" value="level 7"' in page
    assert '<input type="hidden" name="kind" value="never solved">' in page
    assert "<b>1</b> problem matches" in page


def test_the_chart_has_the_rate_of_each_step_with_its_interval_and_the_prediction(tmp_path: Path) -> None:
    rows = (
        group("train", "p", 1, 1, predicted=0.5) + group("train", "p", 4, 3) + group("train", "p", 9, 0, predicted=0.25)
    )
    rows += group("train", "p", 4, 1, group_id="another") + group("evaluate", "p", 0, 2) + group("evaluate", "p", 9, 4)
    rows += [row(problem_id="once", member=i) for i in range(4)]
    of_run = OpenedRun(plain_run(tmp_path, rows))
    [figure] = pass_rates(problem_history(of_run, "p"))
    training, evaluations, predicted = figure.series
    assert (training.name, training.x, training.y) == ("training", [1, 4, 9], [0.25, 0.5, 0.0])
    assert [*zip(training.low, training.high, strict=True)] == [interval(1, 4), interval(4, 8), interval(0, 4)]
    assert (evaluations.name, evaluations.x, evaluations.y) == ("evaluations", [0, 9], [0.5, 1.0])
    assert (predicted.name, predicted.x, predicted.y) == ("predicted", [1, 9], [0.5, 0.25])
    assert "95 % Wilson interval of each step" in figure.y
    assert pass_rates(problem_history(of_run, "once")) == []
    page = client_of(of_run).get("/run/0/problem", params={"id": "p"}).text
    assert 'data-figure="pass-rate"' in page
    assert '25.0 % <span class="interval">[4.6, 69.9]</span>' in page


def test_the_word_problems_is_marked_on_the_page_of_one(run: OpenedRun) -> None:
    client = client_of(run)
    for address, marked in (
        ("problems", ("page", "Problems")),
        ("problem?id=unknown", ("true", "Problems")),
        ("rollout?split=train&step=1&id=train:1:unknown/0", ("true", "Rollouts")),
    ):
        bar = client.get(f"/run/0/{address}").text.partition("<header")[2].partition("</header>")[0]
        assert re.findall(r'aria-current="(\w+)">([^<]*)<', bar) == [marked]


def test_a_problem_without_verdicts_was_trained_on_all_the_same(run: OpenedRun) -> None:
    story = "Training sampled 1 rollout of it in 1 step; none has a verdict."
    assert problem_history(run, "unknown").story == story
    page = client_of(run).get("/run/0/problem", params={"id": "unknown"}).text
    assert "0 of 0" not in page


def test_the_list_shows_what_tells_prompts_apart_and_no_empty_column(tmp_path: Path) -> None:
    prompt = "[system]\nBe careful.\n\n[user]\nWhat is {}?"
    rows = [row(problem_id=f"p{i}", prompt=prompt.format(i), outcome=None, tokens=None) for i in (1, 2)]
    client = client_of(OpenedRun(plain_run(tmp_path, rows)))
    page = client.get("/run/0/problems").text
    assert re.findall(r'class="asked" dir="auto">([^<]*)<', page) == ["What is 1?", "What is 2?"]
    heads = re.findall(r"<th[^>]*>([^<]+)</th>", page)
    assert heads == ["problem", "used for", "status", "rollouts"]
    heads = re.findall(r'<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]+)<', client.get("/run/0/rollouts").text)
    assert heads == ["split", "step", "problem", "verdict", "entropy", "stop", "response"]
