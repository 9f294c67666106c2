"""What is made of measurements: the choice of a value, paired changes, where a curve reaches another's end."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import arm, before, evaluation
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.page import page
from outrider.bench.rates import by_rate
from outrider.bench.report import BenchReport
from outrider.bench.results import Arm, Measured, Point
from outrider.bench.spec import Bench, Tune
from outrider.bench.spending import spending
from outrider.bench.tuning import Choice, Tried, choose, tried
from outrider.errors import UserError
from outrider.record import Group, Problem, Rollout, correct, incorrect
from outrider.train.metrics import step_metrics

ENVIRONMENT = {"command": ["x", "bench"], "versions": {}, "started": "", "platform": "", "git": None}


def report(
    start: list[int], *arms: Arm, tune: Tune | None = None, choices: dict[str, Choice] | None = None
) -> BenchReport:
    names = [a.name for a in arms]
    bench = Bench(recipes=names, base=names[0], seeds=2, tokens=200, points=2, tune=tune)
    return BenchReport(bench, before(start), before(start), arms, choices or {}, ())


def told(member: int, stage: str, tokens: int, success: bool) -> Rollout:
    ids, none = np.zeros(tokens, np.int32), np.zeros(0, np.int32)
    verdict = correct("") if success else incorrect("")
    made = Rollout("p", "g", member, none, ids, np.zeros(tokens, np.float32), none, stage=stage, verdict=verdict)
    return made.excluded("no advantage") if tokens == 6 else made


ROWS = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=3)


@given(ROWS, ROWS)
def test_changes_are_paired_by_the_seeds_that_both_have(first: list[list[int]], second: list[list[int]]) -> None:
    found = report([0, 0, 0], arm("a", first), arm("b", second))
    shared = min(len(first), len(second))
    change = found.against_base(found.arms[1], "pass@1")
    expected = (np.array(second[:shared]) - np.array(first[:shared])).mean() / 4
    assert (change.value, change.seeds) == (pytest.approx(expected), shared)
    gained = found.against_before(found.arms[1], "pass@1")
    assert gained.value == pytest.approx(np.mean(second) / 4)
    assert found.against_base(found.arms[0], "pass@1").value == 0


def test_seeds_are_paired_by_their_number_not_by_their_place() -> None:
    found = report([0], arm("a", [[1], [2]], seeds=(0, 1)), arm("b", [[4], [4]], seeds=(1, 2)))
    change = found.against_base(found.arms[1], "pass@1")
    assert (change.value, change.seeds) == (0.5, 1)  # seed 1: 4 of 4 against 2 of 4
    found = report([0], arm("a", [[1]], seeds=(0,)), arm("b", [[4]], seeds=(1,)))
    assert found.against_base(found.arms[1], "pass@1").seeds == 0


def test_the_place_where_a_curve_reaches_the_bases_end() -> None:
    base = arm("a", [[1, 1]], [[2, 2]])  # .25, .5 after 10, 20 steps
    quick, slow = arm("b", [[4, 4]], [[4, 4]]), arm("c", [[0, 0]], [[1, 1]])
    found = report([0, 0], base, quick, slow)
    assert found.reached(base) == (1.0, 20, 200, 2)
    assert found.reached(quick) == (0.25, 5, 50, 0.5)  # half of the way from 0 to 1, in the first 10 steps
    assert all(map(math.isnan, found.reached(slow)))


def test_the_mean_on_the_way_is_the_area_under_the_curve() -> None:
    """From 0: a is at 1/4 half of the way and at 1/2 at the end; b at 1 from the first evaluation on."""
    found = report([0, 0], arm("a", [[1, 1]], [[2, 2]]), arm("b", [[4, 4]], [[4, 4]]))
    base, quick = found.arms
    assert found.on_the_way(base).value == pytest.approx(0.5 * 1 / 8 + 0.5 * 3 / 8)
    assert found.on_the_way(quick).value == pytest.approx(0.5 * 1 / 2 + 0.5 * 1)
    assert found.on_the_way_against_base(quick).value == pytest.approx(0.75 - 0.25)
    assert "| b | 5 | 50 | 0 | 0.750 ±.000† | +0.500 ±.000† |" in page(found, ENVIRONMENT)


def test_the_mean_on_the_way_leaves_out_what_is_unknown() -> None:
    """The first problem could not be verified at the first evaluation."""
    found = report([0, 0], arm("a", [[0, 2]], [[4, 4]], scorable=[[0, 4], [4, 4]]))
    assert found.on_the_way(found.arms[0]).value == pytest.approx(0.5 * 1 / 4 + 0.5 * 3 / 4)


def test_problems_that_change_sides_are_counted_beside_those_that_do_by_chance() -> None:
    """Before: unsolved, unsolved, solved, solved. Drawn again the third is not; b solves the first in both seeds, the
    second in one, and loses the fourth in one."""
    start, again = before([0, 0, 1, 2]), before([0, 0, 0, 4])
    b = arm("b", [[1, 1, 1, 4], [3, 0, 2, 0]])
    bench = Bench(recipes=["b"], base="b", seeds=2, tokens=200, points=1)
    found = BenchReport(bench, start, again, (b,), {}, ())
    assert [e.value for e in found.turned(b).values()] == [3 / 8, 1 / 8]
    assert [e.value for e in found.turned(again).values()] == [0, 1 / 4]
    table = page(found, ENVIRONMENT).split("## Problems newly solved")[1].split("##")[0]
    assert re.search(r"^\| before training, drawn again \| 0\.000 .* \| 0\.250 ±[^†]*$", table, re.M)
    assert re.search(r"^\| b \| 0\.375 .*† \| 0\.125 .*† \|$", table, re.M)
    assert (
        json.loads(json.dumps(found.to_json(), allow_nan=False))["problems_turned_by_chance"]["lost"]["value"] == 0.25
    )


def test_problems_are_distinguished_by_their_pass_rate_before_training() -> None:
    """Before: never, never, often (its upper end), mostly, and one that could not be verified."""
    start, again = before([0, 0, 2, 3, 0], scorable=[4, 4, 4, 4, 0]), before([1, 0, 4, 3, 4])
    base, other = arm("a", [[0, 2, 2, 4, 4]]), arm("b", [[1, 4, 4, 3, 0]])
    bench = Bench(recipes=["a", "b"], base="a", seeds=2, tokens=200, points=1)
    found = BenchReport(bench, start, again, (base, other), {}, ())
    changes = found.by_rate_against_base(other)
    assert {name: (e.value, e.problems) for name, e in changes.items() if e.problems} == {
        "never": (pytest.approx((1 + 2) / 8), 2),
        "often": (pytest.approx(2 / 4), 1),
        "mostly": (pytest.approx(-1 / 4), 1),
    }
    assert math.isnan(changes["seldom"].value)
    table = page(found, ENVIRONMENT).split("## By the pass rate")[1].split("\n##")[0]
    assert "| recipe | never (2) | seldom (0) | often (1) | mostly (1) |" in table
    assert re.search(r"^\| before training, drawn again \| 0\.125 .* \| — \| 1\.000 \| 0\.750 \|$", table, re.M)
    assert re.search(r"^\| b \| \+0\.375 ±.* \| — \| \+0\.500† \| -0\.250† \|$", table, re.M)


@given(st.lists(st.integers(0, 16), min_size=1, max_size=9))
def test_every_problem_is_in_the_class_of_its_rate(successes: list[int]) -> None:
    classes = by_rate(before(successes, samples=16).end)
    found = [[name for name, chosen_P in classes.items() if chosen_P[i]] for i in range(len(successes))]
    expected = ["never" if c == 0 else "seldom" if c <= 2 else "often" if c <= 8 else "mostly" for c in successes]
    assert found == [[name] for name in expected]


def test_an_entropy_is_per_token_of_all_problems() -> None:
    found = report([0, 0], arm("a", [[0, 4]]))
    assert found.value(found.arms[0], "entropy").value == pytest.approx((1 + 5) / 20)


def test_the_numbers_on_disk_are_plain_and_complete() -> None:
    found = report([1, 2], arm("a", [[1, 1]], [[2, 2]]), arm("b", [[4, 3]], [[4, 4]]))
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [(r["recipe"], r["share"], r["steps"], r["pass@1"]) for r in rows] == [
        ("before training", "0.0", "0", "0.375"),
        ("a", "0.5", "10", "0.25"),
        ("a", "1.0", "20", "0.5"),
        ("b", "0.5", "10", "0.875"),
        ("b", "1.0", "20", "1.0"),
    ]
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["recipes"]["b"]["minus_base"]["pass@1"]["value"] == 0.5


def test_a_change_is_bold_only_where_its_interval_excludes_zero() -> None:
    sure, same, few = [[3, 3, 3, 4]] * 3, [[0, 1, 0, 0], *[[0, 0, 0, 0]] * 2], [[3, 3, 3, 4]] * 2
    found = report([0] * 4, arm("a", [[0] * 4] * 3), arm("b", sure), arm("c", same), arm("d", few))
    text = page(found, ENVIRONMENT)
    changes = text.split("## Change from a")[1].split("##")[0]
    cells = {line.split(" | ")[0]: line.split(" | ")[2] for line in changes.splitlines() if line.startswith("| ")}
    assert cells["| b"].startswith("**+0.812** ±")
    assert cells["| c"].startswith("+0.021 ±")
    assert cells["| d"].startswith("+0.812 ±"), "two seeds are too few to be sure"
    assert cells["| d"].endswith("†")
    assert not any("†" in cells[f"| {name}"] for name in "bc")
    assert "† Two seeds: " in changes
    assert "| a" not in cells


def test_the_page_compares_at_equal_pass_at_1() -> None:
    """b ends at 1/4 with both problems solved, where the line of a is half of the way from (0, 0) to (1/2, 1/2)."""
    found = report([0, 0], arm("a", [[4, 0], [4, 0]]), arm("b", [[1, 1], [1, 1]]), arm("c", [[0, 0], [0, 0]]))
    table = page(found, ENVIRONMENT).split("at equal pass@1")[1].split("##")[0]
    assert "| recipe | seeds | at pass@1 | pass@4 |" in table
    assert "| b | 2 | 0.250 | +0.750 ±.000† |" in table
    assert "| c | 2 | — | — |" in table
    assert "| a |" not in table
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))["recipes"]
    places = [told[name]["minus_base_at_equal_pass@1"]["pass@4"] for name in "bc"]
    assert [(place["value"], place["at_pass@1"]) for place in places] == [(0.75, 0.25), (None, None)]


def test_the_page_compares_at_equal_steps_or_at_equal_tokens() -> None:
    """b ends where a is half of the way between two points: 1/4 on the first problem. c ends before a's first."""
    half = arm("b", [[1, 1], [1, 1]])
    short = Arm("b", half.seeds, (replace(half.end, steps=(15, 15), tokens=(150.0, 150.0)),))
    soon = Arm("c", half.seeds, (replace(half.end, steps=(5, 5), tokens=(50.0, 50.0)),))
    found = report([0, 0], arm("a", [[0, 0], [0, 0]], [[2, 0], [2, 0]]), short, soon)
    table = page(found, ENVIRONMENT).split("at equal steps")[1].split("##")[0]
    assert "| b | 2 | 15 | +0.125 ±" in table
    assert "| c | 2 | 5 | — | — |" in table
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))["recipes"]["b"]["minus_base_at_equal_steps"]
    assert (told["pass@1"]["value"], told["pass@1"]["at_steps"]) == (0.125, 15)
    steps = replace(found, bench=found.bench.model_copy(update={"tokens": None, "steps": 10}))
    assert "| b | 2 | 150 | +0.125 ±" in page(steps, ENVIRONMENT).split("at equal tokens")[1].split("##")[0]


def test_the_page_says_which_problems_equal_pass_at_1_leaves_out() -> None:
    known, short = arm("a", [[2, 2]]), arm("b", [[1, 0]], scorable=[[4, 2]])
    text = page(report([0, 0], known, short), ENVIRONMENT)
    assert "Problems excluded because a sample could not be verified: b 1 of 2." in text
    assert "excluded" not in page(report([0, 0], known, arm("b", [[1, 0]])), ENVIRONMENT)


def test_one_sample_has_no_other_pass_at_k_to_compare() -> None:
    first, second = (arm(name, [[1, 0]], samples=1) for name in "ab")
    bench = Bench(recipes=["a", "b"], base="a", seeds=1, tokens=200, points=1)
    start = before([0, 0], samples=1)
    text = page(BenchReport(bench, start, start, (first, second), {}, ()), ENVIRONMENT)
    assert "## Change from a" in text
    assert "at equal pass@1" not in text


def test_one_seed_ranks_nothing_and_the_page_says_so() -> None:
    found = report([0, 0], arm("a", [[1, 1]]), arm("b", [[2, 2]]))
    one = replace(found, bench=found.bench.model_copy(update={"seeds": 1}))
    assert "this comparison cannot show which recipe is better" in page(one, ENVIRONMENT)
    assert " is ahead of " not in page(one, ENVIRONMENT)
    two = report([0, 0], arm("a", [[1, 1]] * 2), arm("b", [[2, 2]] * 2))
    assert "this comparison cannot show" not in page(two, ENVIRONMENT)


def test_recipes_measured_on_other_problems_are_not_compared() -> None:
    other = Arm("b", (0,), (Point(1.0, (evaluation([1], prefix="q"),), (1,), (1.0,), (1.0,)),))
    with pytest.raises(UserError, match="b was evaluated on other problems"):
        report([0], arm("a", [[1]]), other)


TUNE = Tune(values={"learn.lr": [5e-5, 1e-4, 2e-4]}, tokens=10, seeds=2)


def of(value: float, failed: int = 0) -> Tried:
    """The same on both problems, so two differ without error."""
    return Tried({"learn.lr": value}, Measured(np.full((1, 2), value), np.ones((1, 2))), {}, failed)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 1)), min_size=2, max_size=5))
def test_the_best_value_without_a_failed_run_is_chosen(values: list[tuple[float, int]]) -> None:
    choice = choose(TUNE, [of(value, failed) for value, failed in values])
    whole = [value for value, failed in values if not failed]
    assert choice.chosen == (values.index((max(whole), 0)) if whole else None)


def test_a_later_value_has_to_be_better_by_more_than_the_error() -> None:
    """Differences of 0, 0, 0, x on four problems: mean x/4, standard error x/4. Of 0, 0, x, x: x/2 and 0.29 x."""
    for later, chosen in (([0, 0, 0, 1], 0), ([0, 0, 1, 1], 1)):
        rows = [np.array([row], float) for row in ([0, 0, 0, 0], later)]
        assert choose(TUNE, [Tried({}, Measured(row, np.ones((1, 4))), {}, 0) for row in rows]).chosen == chosen


@pytest.mark.parametrize(("by", "value"), [("pass@1", 0.25), ("pass@n", 0.5), ("mean", 0.375)])
def test_the_criterion_is_what_was_asked_for(by: str, value: float) -> None:
    tune = TUNE.model_copy(update={"by": by})
    found = tried(
        tune, {"learn.lr": 1e-4}, arm("a", [[2, 0], [2, 0]])
    )  # pass@1 1/4; with all 4 samples, one problem of two
    assert found.scores["criterion"].value == pytest.approx(value)
    assert found.failed == 0
    assert tried(tune, {}, arm("a", [[2, 0]])).failed == 1
    assert tried(tune, {"learn.lr": 1e-4}, None) == Tried({"learn.lr": 1e-4}, None, {}, 2)


def test_the_page_shows_what_was_tried_and_warns_of_an_edge() -> None:
    runs = [[[1, 1], [1, 1]], [[2, 2], [2, 2]]]
    for rates, edge in (([5e-5, 1e-4, 2e-4], False), ([5e-5, 1e-4], True)):
        tune = Tune(values={"learn.lr": rates}, tokens=10, seeds=2)
        arms = [*(arm("a", each) for each in runs), None]
        options = [tried(tune, values, each) for values, each in zip(tune.candidates, arms, strict=False)]
        found = report([0, 0], arm("a", [[1, 1]]), tune=tune, choices={"a": choose(tune, options)})
        lines = re.findall(r"^\| a \| (\S+) \|.*\| (.*) \|$", page(found, ENVIRONMENT).split("## Tuning")[1], re.M)
        marks = dict(lines)
        assert marks["0.0001"] == "chosen" + ", at the edge of the tried values" * edge
        assert marks["5e-05"] == ""
        if not edge:
            assert marks["0.0002"] == "2 failed"


def test_two_keys_are_tuned_together_and_the_page_says_which_is_at_its_edge() -> None:
    tune = Tune(values={"learn.lr": [1e-4, 2e-4, 4e-4], "learn.minibatches": [1, 4]}, tokens=10)
    assert tune.candidates[:3] == [
        {"learn.lr": 1e-4, "learn.minibatches": 1},
        {"learn.lr": 1e-4, "learn.minibatches": 4},
        {"learn.lr": 2e-4, "learn.minibatches": 1},
    ]
    runs = [arm("a", [[successes, successes]]) for successes in (1, 1, 1, 3, 2, 2)]
    choice = choose(tune, [tried(tune, values, each) for values, each in zip(tune.candidates, runs, strict=True)])
    assert choice.values == {"learn.lr": 2e-4, "learn.minibatches": 4}
    text = page(report([0, 0], arm("a", [[1, 1]]), tune=tune, choices={"a": choice}), ENVIRONMENT)
    assert "Tuned: `learn.lr` with `learn.minibatches`, with the same budget for each recipe" in text
    assert "| recipe | learn.lr | learn.minibatches | criterion |" in text
    assert "| a | 0.0002 | 4 |" in text
    assert "| chosen, at the edge of the tried values of learn.minibatches |" in text


def test_the_picture_draws_every_recipe(tmp_path: Path) -> None:
    from outrider.bench.picture import frontier_figure

    names = [f"r{i}" for i in range(9)]
    found = report([1, 1], *(arm(name, [[1, 2], [2, 2]], [[i % 5, 2], [2, 3]]) for i, name in enumerate(names)))
    plane, *panels = frontier_figure(found).axes
    assert plane.get_legend_handles_labels()[1] == [*names, "before training"]
    ends = {(line.get_color(), line.get_marker()) for line in plane.lines if line.get_markersize() == 10}
    assert len(ends) == 9  # distinguished by colour and shape
    for axes in panels:
        assert len(axes.lines) == 9 * 3  # the mean and two seeds
        labels = [axes.xaxis.get_major_formatter()(tokens, 0) for tokens in (50.0, 150.0)]
        assert labels == ["50", "150"]
    for bars in plane.collections:  # the intervals of differences of two seeds are wider than any rate
        (line,) = bars.get_segments()
        assert (line >= 0).all()
        assert (line[:, 0] <= 1).all()


def test_spending_is_what_the_rollouts_of_all_steps_say() -> None:
    """The metrics of a step are rates of that step; over a run they are those of all its rollouts together."""
    steps = [
        [("0-uniform", 3, False), ("0-uniform", 5, True), ("2-branch", 4, True)],
        [("0-uniform", 10, False), ("0-uniform", 6, False)],  # nothing branched
        [("0-uniform", 0, False), ("0-uniform", 2, False), ("2-branch", 7, False), ("2-branch", 9, True)],
    ]
    groups = [Group(Problem("p", ""), "g").joined([told(i, *r) for i, r in enumerate(step)]) for step in steps]
    metrics = [step_metrics([group], tokens=0) for group in groups]
    assert math.isnan(spending(metrics).gradient), "a version that did not count them"
    # 69 tokens with a gradient of 46 generated ones: one step is trained on twice, another not at all
    found = spending([row | more for row, more in zip(metrics, ({"learn/tokens": 69.0}, {}, {}), strict=True)])
    assert found.gradient == pytest.approx(1.5)
    uniform, branch = found.stages
    assert (uniform.stage, branch.stage) == ("0-uniform", "2-branch")
    assert uniform[1:] == pytest.approx((26 / 46, 2.0, 1000 / 26, 1000 / 26))
    assert branch[1:] == pytest.approx((20 / 46, 1.0, 2000 / 20, 1000 / 20))
    assert found.unused == pytest.approx(6 / 46)  # the rollouts of 6 tokens are marked
    assert found.mixed == pytest.approx(2 / 3)
    lines = [f"| a | uniform | 57% | 2 | {1000 / 26:.2f} | {1000 / 26:.2f} | 13% | 67% | 150% |",
             "| a | branch | 43% | 1 | 100.00 | 50.00 | 13% | 67% | 150% |"]  # fmt: skip
    shown = page(report([0], replace(arm("a", [[1]]), spent=found)), ENVIRONMENT)
    assert "\n".join(lines) in shown
