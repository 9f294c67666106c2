"""What the report says where only some recipes have something to say: novelty, a greedy baseline, one policy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain_rows import row, run_of_rows
from test_report_sections import line, table_of

from outrider.report.findings import duplicates, view
from outrider.report.sections import budget, diversity, groups, lengths, sampler


def test_novelty_compares_the_successes_that_it_preferred_with_their_group():
    group = [
        row(outcome="correct", tokens=n, logprob=p, advantage=1.0) for n, p in ((30, -3.0), (20, -0.5), (10, -0.5))
    ]
    group += [row(tokens=60, logprob=-1.0, advantage=-1.0)]
    group += [row(outcome="correct", tokens=500, logprob=-9.0, advantage=None)]  # nothing was assigned: no member
    group += [row(outcome="correct", tokens=500, logprob=-9.0, advantage=2.0, unused="cut")]
    rows = [one | {"member": m} for m, one in enumerate(group)]
    credit = {"main": ["group_mean", {"novelty": {"weight": 2.5}}]}
    found = table_of(lengths.section(run_of_rows(rows, config={"credit": credit})), "lengths-sharpened")
    # Of 30, 20, 10, 60 only the first is a success below the mean log-probability, -1.25. Numbers by hand.
    told = {one["reference"]: (one["mean z"], one["mean ratio"]) for one in found}
    assert told["successes of the group"] == (pytest.approx(math.sqrt(1.5)), 1.5)
    assert told["whole group"] == (0.0, 1.0)
    assert told["its other successes"] == (3.0, 2.0)
    assert "lengths-sharpened" not in {t.id for t in lengths.section(run_of_rows(rows)).tables}


def test_each_evaluation_of_a_problem_is_a_group_of_its_own():
    steps, one = range(8), {"split": "evaluate", "group_id": "evaluate:p", "text": "2"}
    run = run_of_rows([row(**one, step=step, member=member) for step in steps for member in (0, 1)])
    assert sorted(view.by_group(run)["step"]) == list(steps)
    assert duplicates._groups(run)["n"].tolist() == [2, 2]  # those of the last quarter of the steps


def test_a_greedy_baseline_costs_tokens_and_is_no_member():
    sampled = [row(member=m, tokens=10, answer="a", advantage=0.0) for m in range(3)]
    greedy = row(member=3, stage="1-greedy", outcome="correct", tokens=10, answer="b", unused="excluded context")
    run = run_of_rows([*sampled, greedy])
    assert line(groups.section(run), "groups-kinds", "unsolved") == {1: 1.0}
    stages = {cells["stage"]: cells for cells in table_of(budget.section(run), "budget-stages")}
    assert (stages["1-greedy"]["tokens"], stages["1-greedy"]["success"]) == (10, 1.0)
    assert stages["1-greedy"]["first successes per 1000 tokens"] == 0
    assert "`greedy` are not samples" in budget.section(run).tables[0].note
    assert "`greedy`" not in budget.section(run_of_rows(sampled)).tables[0].note
    assert line(diversity.section(run), "diversity-answers", "two answers differ") == {1: 0.0}
    (told,) = [c for c in table_of(lengths.section(run), "lengths-table") if c["outcome"] == "all"]
    assert told["rollouts"] == 3
    assert view.by_group(run)["scorable"].tolist() == [3]
    # What 1000 tokens returned counts what the baseline took: 40 tokens, no success.
    assert line(budget.section(run), "budget-returns", "successes") == {1: 0.0}
    solved = run_of_rows([one | {"outcome": "correct"} for one in sampled] + [greedy])
    assert line(budget.section(solved), "budget-returns", "successes") == {1: 1000 * 3 / 40}


def test_rounding_is_drawn_as_zero():
    metrics = {"step": np.array([1.0, 2.0]), "learn/kl_old": np.array([-3e-10, 2e-10]), "learn/grad_norm": np.ones(2)}
    found = sampler.section(run_of_rows([row()], metrics=metrics))
    assert [list(s.y) for f in found.figures for s in f.series] == [[0.0, 0.0], [1.0, 1.0]]
    assert [bool(f.note) for f in found.figures] == [True, False]
