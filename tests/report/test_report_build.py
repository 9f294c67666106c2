"""A report as a whole: examples, what a dump lacks."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from pkgutil import iter_modules
from typing import Any

import pytest
from plain_rows import random_rows, row, run_of_rows

from outrider.report import sections
from outrider.report.build import SECTIONS, build
from outrider.report.content import Report, Section
from outrider.report.data import RunData
from outrider.report.findings import CHECKS
from outrider.report.sections import (
    examples,
)

Rows = list[dict[str, Any]]

# examples


def test_examples_tell_one_of_each_kind_and_parents_come_first():
    branched = [row(step=9, problem_id="b", member=m) for m in range(2)]
    parent = "train:9:b/0"
    child = "train:9:b/4"
    branched += [row(step=9, problem_id="b", member=2, parent=child, branch_at=7, outcome="correct", text="grandchild")]
    branched += [row(step=9, problem_id="b", member=4, parent=parent, branch_at=3)]
    again = [
        row(step=s, problem_id="a", member=m, outcome="correct" if s == 3 and m else "incorrect")
        for s in (1, 3)
        for m in (0, 1)
    ]
    cut = [row(step=2, problem_id="t", stop="length", text="x" * 4000), row(step=2, problem_id="t", member=1)]
    seeded = [row(step=4, problem_id="s", context="seeded", outcome="correct", prompt=None)]
    found = examples.section(run_of_rows(branched + again + cut + seeded))
    titles = [example.title.split(" (")[0] for example in found.examples]
    assert titles == [
        "A branch that succeeded",
        "Seeded with solved examples or a hint",
        "Solved for the first time",
        "Truncated at the length limit",
        "No success",
    ]
    nodes = found.examples[0].nodes
    assert [node.id[-1] for node in nodes] == ["0", "1", "4", "2"]
    assert [node.parent for node in nodes] == [None, None, parent, child]
    assert [node.at for node in nodes] == [0, 0, 3, 4]  # 7 tokens before the grandchild, 3 of them its grandparent's
    assert found.examples[0].prompt == "what?"
    assert found.examples[1].prompt == ""
    assert "train:3:a/1" in [node.id for node in found.examples[2].nodes]
    assert found.examples[3].nodes[0].text.endswith("… (+1,000 characters)")


def test_a_large_group_is_cut_without_losing_parents_or_its_success():
    rows = [
        row(
            member=m,
            parent=f"train:1:p/{m - 1}" if m > 30 else None,
            branch_at=max(0, m - 30),
            outcome="correct" if m == 39 else "incorrect",
        )
        for m in range(40)
    ]
    (example,) = examples.section(run_of_rows(rows)).examples
    shown = [node.id for node in example.nodes]
    assert len(shown) == 16
    assert "train:1:p/39" in shown
    assert all(node.parent is None or node.parent in shown[: shown.index(node.id)] for node in example.nodes)
    assert "16 of 40 rollouts" in example.title


# whatever a dump lacks


def bare(**values: Any) -> Rows:
    nothing: dict[str, Any] = dict.fromkeys(
        (
            "level",
            "prompt",
            "tokens",
            "entropy",
            "logprob",
            "outcome",
            "reward",
            "advantage",
            "answer",
            "detail",
            "seconds",
            "stop",
            "policy_version",
        )
    )
    return [row(step=s, problem_id=f"p{m % 2}", member=m, **{**nothing, **values}) for s in (1, 2, 3) for m in range(4)]


@pytest.mark.parametrize(
    ("rows", "sections"),
    [
        ([], []),
        (bare(), ["budget", "diversity", "lengths", "faults", "examples"]),
        (
            bare(outcome="correct"),
            ["frontier", "budget", "groups", "diversity", "lengths", "faults", "verdicts", "examples"],
        ),
        (bare(logprob=-1.0), ["budget", "entropy", "diversity", "lengths", "faults", "examples"]),
        (bare(entropy=math.nan, reward=math.nan, advantage=math.nan, seconds=math.nan), None),
        (bare(advantage=0.0, outcome="timeout"), None),
        ([row(split="evaluate", step=0)], ["budget", "groups", "entropy", "lengths", "faults", "verdicts", "examples"]),
        ([row(text="", tokens=0, outcome="correct", advantage=1.0)], None),
        (
            [row(step=7, member=m, parent="train:7:p/0" if m else "train:7:p/3", outcome="correct") for m in range(4)],
            None,
        ),
    ],
    ids=["empty", "bare", "verdicts", "logprobs", "nan", "timeouts", "one evaluation", "no text", "a loop of parents"],
)
def test_what_is_missing_makes_no_section_and_nothing_else(rows, sections):
    made = made_of(run_of_rows(rows))
    if sections is not None:
        assert [section.id for section in made] == sections


def made_of(run: RunData) -> list[Section]:
    """All sections of a run, after a look that its JSON can be written."""
    made = [section for make in SECTIONS if (section := make(run)) is not None]
    report = Report("", {}, [], [], {}, made)
    json.dumps(report.to_json(), allow_nan=False)
    return made


@pytest.mark.parametrize("steps", [1, 250])
def test_runs_of_any_length_fit_into_the_same_figures(steps):
    made = made_of(run_of_rows(random_rows(0, steps=steps, groups=1)))
    assert len(made) > 6
    assert max(len(s.x) for section in made for f in section.figures for s in f.series) <= 100


def test_an_empty_run_makes_a_report_in_which_every_check_is_accounted_for():
    report = build(run_of_rows([]))
    assert report.sections == []
    assert len(report.checked) + len(report.skipped) == len(CHECKS)
    assert report.facts["rollouts"] == 0


def test_ids_of_figures_and_tables_are_unique():
    report = build(run_of_rows(random_rows(0)))
    ids = [part.id for section in report.sections for part in (*section.figures, *section.tables)]
    assert len(set(ids)) == len(ids) > 10


def test_a_branch_says_where_it_cuts_the_text_of_its_parent():
    rows = [row(text="abcdef"), row(member=1, parent="train:1:p/0", branch_at=3, text="x")]
    rows += [
        row(member=2, parent="train:1:p/1", branch_at=5, text="y"),
        row(member=3, parent="train:1:p/0", branch_at=9),
    ]
    asked: list[Any] = []

    def beginnings(places: Any) -> dict[Any, str]:
        asked.extend(places)
        return {places[0]: "abc", places[1]: "x\ufffd", places[2]: "something else"}

    run = replace(run_of_rows(rows), beginnings=beginnings)
    (example,) = examples.section(run).examples
    assert asked == [(1, "train:1:p/0", 3), (1, "train:1:p/1", 2), (1, "train:1:p/0", 9)]
    assert {node.id[-1]: (node.at, node.cut) for node in example.nodes} == {
        "0": (0, None),
        "1": (3, 3),
        "2": (2, 1),  # a character was cut in two, and stands behind the pivot
        "3": (9, None),
    }


def test_every_file_of_sections_that_has_a_section_makes_one_of_the_report():
    modules = [importlib.import_module(f"outrider.report.sections.{m.name}") for m in iter_modules(sections.__path__)]
    made = [module.section for module in modules if hasattr(module, "section")]
    assert sorted(made, key=id) == sorted(SECTIONS, key=id)
