"""The study of intervals: none is missing from it, it counts rightly, and its page is what its numbers say."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "benchmarks" / "studies"

# What has a low and a high, or draws, and is returned by whatever makes an interval.
INTERVALS = {
    *(
        "Interval",
        "IntervalBounds",
        "Mean",
        "Profile",
        "Correlation",
        "Estimate",
        "Equal",
        "EqualSpent",
        "Change",
        "FirstAndLast",
        "Level",
        "Proportion",
    ),
    *("Bend", "Exchange", "Weights"),
}
# Those that only pass on what another one makes, or are shown on no page.
OF_OTHERS = {
    "bounds": "the middle of draws, inside find_bend and fit_exchange",
    "by_relative_position": "means_by_group",
    "by_position": "means_by_group",
    "Profile.over_responses": "over_problems, for studies alone",
    "by_entropy": "means_by_group",
    "by_perplexity": "means_by_group",
    "Profile.difference": "means_by_group over problems",
    "perplexity_against_change": "rank_correlation",
    "Exchange.at": "fit_exchange; the line alone is drawn",
    "Analysed.means": "means_by_group over problems",
    "Analysed.over_problems": "means_by_group over problems",
    "BenchReport.value": "estimate",
    "BenchReport.against_base": "difference",
    "BenchReport.against_before": "difference",
    "BenchReport.at_equal_pass1": "at_equal_pass1",
    "at_equal": "difference",
    "BenchReport.at_equal_other": "difference",
    "BenchReport.on_the_way": "estimate",
    "BenchReport.on_the_way_against_base": "difference",
}


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(STUDIES))
    before = set(sys.modules)
    yield importlib.import_module("coverage_of_intervals")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(STUDIES)):
            del sys.modules[name]


def makers() -> set[str]:
    """Public functions and methods of the package that return an interval."""
    found = set()
    for path in [*(ROOT / "src/outrider/measure").glob("*.py"), *(ROOT / "src/outrider/bench").glob("*.py"),
                 *(ROOT / "src/outrider/report").rglob("*.py")]:  # fmt: skip
        for node in ast.parse(path.read_text()).body:
            methods = [(f"{node.name}.", m) for m in node.body] if isinstance(node, ast.ClassDef) else [("", node)]
            for owner, method in methods:
                if isinstance(method, ast.FunctionDef) and method.returns is not None:
                    returned = ast.unparse(method.returns)
                    if returned in INTERVALS and not method.name.startswith("_"):
                        found.add(owner + method.name)
    return found


def test_every_interval_is_simulated_or_is_one_that_is(study):
    others = {"pass_rate_bound": "an array", "entropy_collapse._from_the_first": "of one finding"}
    assert makers() | others.keys() == study.COVERED.keys() | OF_OTHERS.keys()
    assert {case.interval for case in study.CASES} == {name for names in study.COVERED.values() for name in names}


def test_the_committed_numbers_are_those_of_the_cases_and_the_page(study):
    numbers = json.loads((STUDIES / "coverage_of_intervals.json").read_text())
    rows = [study.Row(**row) for row in numbers["rows"]]
    wanted = {(case.interval, case.population, case.trials, case.nominal) for case in study.CASES}
    assert {(row.interval, row.population, row.trials, row.nominal) for row in rows} == wanted
    assert numbers["covered"] == {name: list(rows) for name, rows in study.COVERED.items()}
    assert study.page(numbers) == (ROOT / "docs" / "intervals.md").read_text()
    assert numbers["about"].keys() >= {"command", "seeds", "date", "versions"}


def test_intervals_are_counted_on_both_sides(study):
    """Of a normal mean with known deviation: the ends are off by as much as they should be."""
    from _coverage import Case, held

    def draw(rng):
        mean = rng.normal(3.0, 1.0)
        halves = {"right": 1.96, "half": 0.6745, "none": math.nan}
        return {name: (mean - half, mean + half) for name, half in halves.items()} | {"low": (mean - 3, mean - 1)}

    truths = dict.fromkeys(("right", "half", "low", "none"), 3.0)
    rows = {r.quantity: r for r in held(Case("a", "b", "c", lambda: truths, draw), 4000, np.random.default_rng(0))}
    assert rows["right"].held == pytest.approx(0.95, abs=0.014)
    assert (rows["half"].below, rows["half"].above) == pytest.approx((0.25, 0.25), abs=0.028)
    assert rows["low"].held == pytest.approx(0.157, abs=0.024)  # 1 < deviation < 3 standard errors
    assert rows["low"].width == pytest.approx(2)
    assert (rows["none"].none, math.isnan(rows["none"].held)) == (1.0, True)


def test_cases_know_their_truths(study):
    """A mean over many intervals' middles is near what the case calls the truth, where nothing is skewed."""
    from _coverage import held

    for case in study.CASES:
        if (case.interval, case.population) in {
            ("evaluation", "200 problems"),
            ("groups of training", "60 problems, more groups for hard ones"),
            ("tokens", "100 problems, 4 responses each"),
            ("bench", "5 seeds, 300 problems"),
            ("rank correlation", "100 problems, 4 responses each"),
        }:
            drawn = [case.draw(np.random.default_rng(seed)) for seed in range(12)]
            known = case._replace(truth=functools.cache(case.truth))
            for quantity, truth in known.truth().items():
                middles = np.array([sum(found[quantity]) / 2 for found in drawn])
                half = np.mean([(found[quantity][1] - found[quantity][0]) / 2 for found in drawn])
                assert abs(middles.mean() - truth) < 2 * half / math.sqrt(12) * 1.96, (case.population, quantity)
            assert min(row.held for row in held(known, 12, np.random.default_rng(1))) > 0.5
