"""The first screen of a report: the sentence on exploration, pass@k before and after, the budget, the reward."""

from __future__ import annotations

import pytest
from plain_rows import random_rows, row, run_of_rows

from outrider.measure import Interval
from outrider.report.build import build
from outrider.report.content import Finding, Section, TableBlock
from outrider.report.data import RunData
from outrider.report.findings import Examined
from outrider.report.headline import headline
from outrider.report.opening import opening


def found(name: str, severity: str) -> Finding:
    return Finding(name, severity, "", {}, "", [])


ROSE, FELL, FLAT = (Interval(v, v - 0.03, v + 0.03, 300) for v in (0.05, -0.05, 0.01))
CANNOT = "The state of exploration is unknown"


@pytest.mark.parametrize(
    ("findings", "checked", "change", "sentence"),
    [
        (
            [found("entropy collapse", "act"), found("duplicates", "watch")],
            [],
            ROSE,
            "Exploration is failing: 2 findings, the most severe is entropy collapse.",
        ),
        ([found("dead prompts", "watch")], [], ROSE, "Exploration is at risk: 1 finding, dead prompts."),
        (
            [found("truncation", "act")],
            ["entropy collapse", "truncation"],
            None,
            "Exploration is alive: the one check of it found no problem. Other findings to act on: truncation.",
        ),
        (
            [found("truncation", "watch")],
            ["entropy collapse", "duplicates"],
            FLAT,
            "Exploration is alive: the 2 checks of it found no problem, and pass@64 did not change significantly "
            "(+1.0 points, 95 % CI -2.0 to +4.0).",
        ),
        (
            [],
            ["entropy collapse"],
            FELL,
            "Exploration is narrowing: pass@64 fell by 5.0 points (95 % CI 2.0 to 8.0), although",
        ),
        ([], ["duplicates"], None, f"{CANNOT}.\n\nNot checked: entropy collapse, which needs 20 steps."),
        ([], [], None, CANNOT),
    ],
)
def test_the_headline_says_what_findings_and_pass_at_k_say(findings, checked, change, sentence):
    examined = Examined(findings, checked, {"entropy collapse": "20 steps"})
    assert headline(examined, change and (64, change)).startswith(sentence)


def evaluated(step: int, successes: list[int], samples: int = 8) -> list[dict[str, object]]:
    return [
        row(
            split="evaluate",
            step=step,
            problem_id=f"h{p}",
            member=m,
            tokens=30,
            outcome=("incorrect", "correct")[m < c],
        )
        for p, c in enumerate(successes)
        for m in range(samples)
    ]


BEFORE, AFTER = [0, 2, 4, 8] * 10, [0, 4, 4, 8] * 10


@pytest.fixture(scope="module")
def run() -> RunData:
    training = random_rows(0, steps=30)
    greedy = [r | {"split": "greedy", "member": 8, "stage": "0-greedy"} for r in evaluated(30, [1] * 40, 1)]
    return run_of_rows([*training, *evaluated(0, BEFORE), *evaluated(30, AFTER), *greedy])


@pytest.fixture(scope="module")
def report(run):
    return build(run)


def tables(section: Section) -> dict[str, TableBlock]:
    return {table.id: table for table in section.tables}


def test_pass_at_k_is_told_before_and_after_with_the_paired_change(report):
    table = tables(report.opening)["opening-pass-at-k"]
    assert table.columns == ["", "before training", "step 30", "change"]
    assert table.units == {"before training": "percent", "step 30": "percent", "change": "points"}
    rows = {name: cells for name, *cells in table.rows}
    assert list(rows) == ["pass@1", "pass@8", "greedy"]
    values = [[cell and cell.value for cell in cells] for cells in rows.values()]
    assert values[0] == pytest.approx([14 / 32, 16 / 32, 2 / 32])
    assert values[1] == pytest.approx([3 / 4, 3 / 4, 0])
    low, high = rows["pass@1"][1][1:3]
    assert low < 0.5 < high
    assert table.note.startswith("40 problems, 8 samples of each.")


def test_the_budget_tells_training_from_evaluation(run, report):
    table = tables(report.opening)["opening-budget"]
    drawn = run.query("SELECT split = 'train' AS trains, stage, tokens, outcome FROM rollouts")
    train = drawn["trains"].astype(bool)
    rows = {name: dict(zip(table.columns[1:], cells, strict=True)) for name, *cells in table.rows}
    assert list(rows) == ["training: 0-uniform", "training: 1-branch", "evaluation"]
    for stage in ("0-uniform", "1-branch"):
        at = train & (drawn["stage"] == stage)
        assert rows[f"training: {stage}"]["tokens"] == drawn["tokens"][at].sum()
        assert rows[f"training: {stage}"]["rollouts"] == at.sum()
    assert rows["evaluation"]["tokens"] == drawn["tokens"][~train].sum() == 30 * (640 + 40)
    assert sum(cells["share"] for cells in rows.values()) == pytest.approx(1)
    facts = report.facts
    assert (facts["training tokens"], facts["evaluation tokens"]) == (drawn["tokens"][train].sum(), 30 * 680)
    assert (facts["training steps"], facts["training rollouts"]) == (30, train.sum())
    assert "tokens" not in facts


def test_the_reward_of_training_is_drawn_over_steps(run, report):
    [figure] = report.opening.figures
    mean = "avg(reward) FILTER (isfinite(reward))"
    rewards = run.query(f"SELECT step, {mean} AS mean FROM rollouts WHERE split = 'train' GROUP BY step")
    expected = dict(zip(rewards["step"].tolist(), rewards["mean"].tolist(), strict=True))
    [series] = figure.series
    assert dict(zip(series.x, series.y, strict=True)) == pytest.approx(expected)


def test_without_reward_success_is_drawn_and_without_both_there_is_a_line_of_text():
    rows = random_rows(0, steps=5)
    for without, title, names in (
        ({"reward": None}, "Success in training", ["success"]),
        ({"reward": None, "outcome": None}, "Mean reward in training", []),
    ):
        run = run_of_rows([r | without for r in rows])
        section = opening(run, Examined([], [], {}))
        assert (section.figures[0].title, [series.name for series in section.figures[0].series]) == (title, names)
        assert section.text == f"{CANNOT}.\n\nNo check of exploration could be made."


def test_groups_of_training_stand_in_where_there_is_no_evaluation():
    rows = [
        row(step=s, problem_id=f"p{p}", member=m, outcome="correct" if m < (s > 5) + p % 2 else "incorrect")
        for s in range(1, 11)
        for p in range(6)
        for m in range(4)
    ]
    table = tables(build(run_of_rows(rows)).opening)["opening-pass-at-k"]
    assert table.columns == ["", "first fifth of the steps", "last fifth"]
    assert [[name, *(cell.value for cell in cells)] for name, *cells in table.rows] == [
        ["pass@1", 1 / 8, 3 / 8],
        ["pass@4", 1 / 2, 1],
    ]
    assert table.note.startswith("There is no evaluation")


def test_rollouts_are_counted_where_a_dump_has_no_tokens():
    table = tables(build(run_of_rows([r | {"tokens": None} for r in random_rows(0, steps=3)])).opening)[
        "opening-budget"
    ]
    assert (table.title, table.columns) == ("Where the rollouts went", ["", "rollouts", "share", "correct"])


def test_an_evaluation_has_no_reward_and_no_change():
    report = build(run_of_rows(evaluated(0, BEFORE)))
    assert report.opening.figures == []
    assert list(tables(report.opening)) == ["opening-scores", "opening-budget"]
    table = tables(report.opening)["opening-scores"]
    assert table.columns == ["", "problems", "pass@1", "pass@8", "mG-Pass@8"]
    assert [row[:2] for row in table.rows] == [["all", 40]]
    assert table.rows[0][2].value == pytest.approx(14 / 32)


def test_of_a_training_that_left_its_evaluations_alone_the_last_is_told_with_the_change():
    report = build(run_of_rows([*evaluated(0, BEFORE), *evaluated(30, AFTER)]))
    assert report.opening.text.startswith("At step 30, the last of 2 evaluations, pass@1 is 50.0 % (95 % CI ")
    table = tables(report.opening)["opening-pass-at-k"]
    assert table.columns == ["", "step 0", "step 30", "change"]
    assert table.rows[0][3].value == pytest.approx(2 / 32)
