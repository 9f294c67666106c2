"""The sections of a report against plain Python over the same rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from plain_rows import random_rows, row, run_of_rows

from outrider.measure import evaluate
from outrider.record import Problem
from outrider.report.content import Figure, RolloutsOf, Section, Series, TableBlock
from outrider.report.sections import (
    budget,
    calibration,
    credit,
    diversity,
    entropy,
    frontier,
    groups,
    lengths,
    sampler,
    verdicts,
)

Rows = list[dict[str, Any]]
SEEDS = [0, 1]


def table_of(section: Section | None, id: str) -> list[dict[str, Any]]:
    assert section is not None
    found: TableBlock = next(t for t in section.tables if t.id == id)
    return [dict(zip(found.columns, cells, strict=True)) for cells in found.rows]


def figure_of(section: Section | None, id: str) -> Figure:
    assert section is not None
    return next(f for f in section.figures if f.id == id)


def line(section: Section | None, id: str, name: str) -> dict[Any, float]:
    """A series as a mapping from x to y."""
    found: Series = next(s for s in figure_of(section, id).series if s.name == name)
    return dict(zip(found.x, found.y, strict=True))


def grouped(rows: Rows, *keys: str) -> dict[Any, Rows]:
    found: dict[Any, Rows] = defaultdict(list)
    for one in rows:
        key = tuple(one[k] for k in keys)
        found[key[0] if len(key) == 1 else key].append(one)
    return dict(sorted(found.items()))


def success(one: dict[str, Any]) -> float | None:
    return None if one["outcome"] is None else float(one["outcome"] == "correct")


def mean(values: Iterable[float | None]) -> float:
    known = [v for v in values if v is not None and not math.isnan(v)]
    return sum(known) / len(known) if known else math.nan


def kind(group: Rows) -> str | None:
    verified = [success(one) for one in group if success(one) is not None]
    return None if not verified else "solved" if all(verified) else "mixed" if any(verified) else "unsolved"


def same(found: dict[Any, float], wanted: dict[Any, float]) -> None:
    """Equal numbers at equal places; NaN is equal to NaN, and a gap to a missing place."""
    places = {
        x for x in (*found, *wanted) if not (math.isnan(found.get(x, math.nan)) and math.isnan(wanted.get(x, math.nan)))
    }
    assert {x: pytest.approx(wanted.get(x)) for x in places} == {x: found.get(x) for x in places}


# budget


def first_success(group: Rows) -> dict[str, Any] | None:
    return next((one for one in sorted(group, key=lambda r: r["member"]) if success(one) == 1), None)


@pytest.mark.parametrize("seed", SEEDS)
def test_budget_by_stage(seed):
    rows = random_rows(seed)
    firsts = [first_success(group) for group in grouped(rows, "step", "problem_id").values()]
    total = sum(one["tokens"] for one in rows)
    wanted = []
    for (stage, stream, context), part in grouped(rows, "stage", "stream", "context").items():
        tokens = sum(one["tokens"] for one in part)
        first = sum(one is not None and one in part for one in firsts)
        trained = sum(one["tokens"] for one in part if one["unused"] == "")
        successes = sum(success(one) or 0 for one in part)
        numbers = [tokens, tokens / total, mean(map(success, part)), 1000 * successes / tokens, 1000 * first / tokens]
        wanted.append([stage, stream, context, len(part), *map(pytest.approx, [*numbers, trained / tokens])])
    assert [list(cells.values()) for cells in table_of(budget.section(run_of_rows(rows)), "budget-stages")] == wanted
    assert sum(cells[-2] != 0 for cells in wanted) > 1  # some stage has first successes


@pytest.mark.parametrize("seed", SEEDS)
def test_budget_by_reason_and_over_time(seed):
    rows = random_rows(seed)
    found = budget.section(run_of_rows(rows))
    total = sum(one["tokens"] for one in rows)
    reasons = {cells[""]: cells["share of tokens"] for cells in table_of(found, "budget-unused")}
    tokens = {why: sum(one["tokens"] for one in part) for why, part in grouped(rows, "unused").items()}
    same(reasons, {why or "trained on": n / total for why, n in tokens.items()})
    assert next(iter(reasons)) == "trained on"
    by_step = grouped(rows, "step")
    for name in ("solved", "mixed", "unsolved"):
        share = {}
        for step, part in by_step.items():
            verified = [g for g in grouped(part, "problem_id").values() if kind(g)]
            of_kind = [g for g in verified if kind(g) == name]
            share[step] = sum(one["tokens"] for g in of_kind for one in g) / sum(
                one["tokens"] for g in verified for one in g
            )
        same(line(found, "budget-by-kind", name), share)
    stages = line(found, "budget-by-stage", "1-branch")
    same(
        stages,
        {
            s: sum(r["tokens"] for r in p if r["stage"] == "1-branch") / sum(r["tokens"] for r in p)
            for s, p in by_step.items()
        },
    )


def test_a_first_success_counts_once_and_for_the_stage_of_the_lowest_member():
    rows = [
        row(member=3, stage="1-more", outcome="correct", tokens=30),
        row(member=2, stage="1-more", outcome="correct", tokens=30),
        row(member=0, outcome="incorrect", tokens=20),
        row(problem_id="q", member=0, outcome="correct", tokens=20),
        row(problem_id="q", member=1, outcome="correct", stage="1-more", tokens=40),
    ]
    first, more = table_of(budget.section(run_of_rows(rows)), "budget-stages")
    assert first["first successes per 1000 tokens"] == 25  # one in 40 tokens
    assert more["first successes per 1000 tokens"] == 10  # one in 100
    assert more["successes per 1000 tokens"] == 30


def test_a_budget_without_tokens_counts_rollouts():
    rows = [row(member=i, tokens=None, outcome="correct" if i == 3 else "incorrect") for i in range(4)]
    found = budget.section(run_of_rows(rows))
    assert "rollouts are counted instead" in found.text
    (cells,) = table_of(found, "budget-stages")
    assert (cells["share of rollouts"], cells["successes per 1000 rollouts"]) == (1, 250)
    assert "tokens" not in cells


# groups


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_over_time_by_level_and_again(seed):
    rows = random_rows(seed)
    found = groups.section(run_of_rows(rows))
    verified = {key: g for key, g in grouped(rows, "step", "problem_id").items() if kind(g)}
    counts = Counter((step, kind(g)) for (step, _), g in verified.items())
    of_step = Counter(step for step, _ in verified)
    for name in ("solved", "mixed", "unsolved"):
        same(line(found, "groups-kinds", name), {step: counts[step, name] / of_step[step] for step in of_step})
    visits: dict[str, list[str | None]] = defaultdict(list)
    for (_, problem), g in verified.items():
        visits[problem].append(kind(g))
    pairs = Counter((seen[0], seen[-1]) for seen in visits.values() if len(seen) > 1)
    again = {(cells[""], name): cells[name] for cells in table_of(found, "groups-again") for name in cells if name}
    assert again == {(f"first {a}", f"last {b}"): pairs[a, b] for a in groups.KINDS for b in groups.KINDS}
    for cells in table_of(found, "groups-levels"):
        part = [g for g in verified.values() if g[0]["level"] == cells["level"]]
        assert cells["groups"] == len(part)
        assert cells["mixed"] == pytest.approx(mean(float(kind(g) == "mixed") for g in part))
        assert cells["success"] == pytest.approx(mean(success(one) for g in part for one in g))


@pytest.mark.parametrize("seed", SEEDS)
def test_coverage_counts_problems_once(seed):
    rows = [one for one in random_rows(seed) if one["outcome"] is not None]
    found = groups.section(run_of_rows(rows))
    steps = sorted({one["step"] for one in rows})
    met = {s: len({one["problem_id"] for one in rows if one["step"] <= s}) for s in steps}
    solved = {s: len({one["problem_id"] for one in rows if one["step"] <= s and success(one)}) for s in steps}
    same(line(found, "groups-coverage", "sampled"), met)
    same(line(found, "groups-coverage", "solved at least once"), solved)


def test_dead_problems_came_back_and_never_succeeded():
    rows = [row(step=s, member=m, problem_id="dead") for s in (1, 2) for m in range(5)]
    rows += [
        row(step=s, member=m, problem_id="late", outcome="correct" if s == 2 else "incorrect")
        for s in (1, 2)
        for m in (0, 1)
    ]
    rows += [row(step=1, problem_id="once")]
    (cells,) = table_of(groups.section(run_of_rows(rows)), "groups-dead")
    assert (cells["visits"], cells["rollouts"], cells["tokens"]) == (2, 10, 100)
    assert cells["problem"] == RolloutsOf("dead", "", "train", 2)  # where `outrider show` finds it
    # A pass rate p fails ten times in a row with probability (1 - p)^10, which is 5 % at the bound.
    assert (1 - cells["pass rate, upper bound"]) ** 10 == pytest.approx(0.05)


# entropy and lengths


@pytest.mark.parametrize("seed", SEEDS)
def test_entropy_is_a_mean_over_tokens(seed):
    rows = random_rows(seed)
    found = entropy.section(run_of_rows(rows))

    def per_token(part: Rows) -> float:
        known = [one for one in part if one["entropy"] is not None]
        tokens = sum(one["tokens"] for one in known)
        return sum(one["entropy"] * one["tokens"] for one in known) / tokens if tokens else math.nan

    by_step = grouped(rows, "step")
    same(line(found, "entropy-time", "entropy"), {step: per_token(part) for step, part in by_step.items()})
    correct = {step: per_token([r for r in part if success(r) == 1]) for step, part in by_step.items()}
    others = {step: per_token([r for r in part if success(r) == 0]) for step, part in by_step.items()}
    same(line(found, "entropy-outcome", "correct"), correct)
    same(line(found, "entropy-outcome", "not correct"), others)
    points = figure_of(found, "entropy-exchange").series[0]
    assert points.x == pytest.approx([per_token(part) for part in by_step.values()])
    assert points.y == pytest.approx([mean(map(success, part)) for part in by_step.values()])


def test_a_rollout_whose_entropy_is_not_a_number_does_not_hide_its_step():
    rows = [row(step=step, member=m, entropy=math.nan if m else 0.5) for step in range(1, 4) for m in (0, 1)]
    assert figure_of(entropy.section(run_of_rows(rows)), "entropy-exchange").series[0].x == [0.5] * 3


def test_no_success_above_1_is_shown_for_what_is_left_of_entropy():
    """R = 1.8 - 0.5 exp(H), seen from H = 0.8 down to 0.5, points to a success of 1.3 where all entropy is spent."""
    rows = []
    for step, entropy_ in enumerate(np.linspace(0.8, 0.5, 12), start=1):
        right = round(200 * (1.8 - 0.5 * math.exp(entropy_)))
        rows += [
            row(step=step, member=m, entropy=entropy_, outcome="correct" if m < right else "incorrect")
            for m in range(200)
        ]
    found = entropy.section(run_of_rows(rows))
    law = {cells[""]: cells for cells in table_of(found, "entropy-law")}
    ceiling = law["b - a: success at zero entropy"]
    assert (ceiling["value"], ceiling["to"]) == (1.0, 1.0)
    [told] = [t for t in found.tables if t.id == "entropy-law"]
    assert "The fitted curve reaches 1.3 at zero entropy, which is not a success rate" in told.note
    drawn = figure_of(found, "entropy-exchange").series[1].y
    assert all(math.isnan(y) or 0 <= y <= 1 for y in drawn)


def test_the_law_of_exchange_is_fitted_where_it_can_be():
    entropies = np.linspace(1.0, 0.2, 10)
    rows = []
    for step, nats in enumerate(entropies.tolist(), start=1):
        good = round(1000 * (0.9 - 0.3 * math.exp(nats)))  # of a thousand
        outcomes = ["correct"] * good + ["incorrect"] * (1000 - good)
        rows += [row(step=step, member=m, entropy=nats, outcome=outcome) for m, outcome in enumerate(outcomes)]
    law = {cells[""]: cells["value"] for cells in table_of(entropy.section(run_of_rows(rows)), "entropy-law")}
    assert law["a"] == pytest.approx(0.3, abs=0.005)  # success comes in thousandths
    assert law["b - a: success at zero entropy"] == pytest.approx(0.6, abs=0.005)
    assert "does not rise significantly" not in entropy.section(run_of_rows(rows)).tables[0].note
    turned = [one | {"step": 1 + (7 * one["step"]) % 10, "entropy": 0.1 * one["step"]} for one in rows]
    against = entropy.section(run_of_rows(turned)).tables[0]  # success rises with entropy
    assert against.note.startswith("The interval of a includes 0 or less: success does not rise significantly")
    few = entropy.section(run_of_rows([one for one in rows if one["step"] < 4]))
    assert few.tables == []
    assert "No curve is drawn: 3 points" in figure_of(few, "entropy-exchange").note


def test_without_entropies_it_is_estimated_and_says_so():
    outcomes = ("correct", "incorrect")
    rows = [
        row(step=s, member=m, entropy=None, logprob=-0.1 * s, tokens=5, outcome=outcomes[m])
        for s in range(1, 10)
        for m in (0, 1)
    ]
    found = entropy.section(run_of_rows(rows))
    assert all("estimated entropy" in part.title.lower() for part in (*found.figures, *found.tables))
    assert {part.id for part in found.figures} == {"entropy-time", "entropy-outcome", "entropy-exchange"}
    found = entropy.section(run_of_rows(rows[:6]))
    assert "is an estimate" in found.text
    same(line(found, "entropy-time", "estimated entropy"), {1: 0.1, 2: 0.2, 3: 0.3})
    assert entropy.section(run_of_rows([row(entropy=None, logprob=None)])) is None


def test_rollouts_without_an_entropy_among_others_are_counted():
    rows = [row(member=m, entropy=(0.5, None, math.nan)[m % 3]) for m in range(9)]
    assert "6 of 9 rollouts have no such number and are excluded." in entropy.section(run_of_rows(rows)).text
    assert "excluded" not in entropy.section(run_of_rows(rows[::3])).text


@pytest.mark.parametrize("seed", SEEDS)
def test_lengths_by_outcome(seed):
    rows = random_rows(seed)
    found = lengths.section(run_of_rows(rows))
    by_step = grouped(rows, "step")
    length = {step: [one["tokens"] + one["branch_at"] for one in part] for step, part in by_step.items()}
    same(line(found, "lengths-quantiles", "median"), {step: float(np.median(n)) for step, n in length.items()})
    same(line(found, "lengths-quantiles", "90 %"), {step: float(np.quantile(n, 0.9)) for step, n in length.items()})
    correct = {s: mean(r["tokens"] + r["branch_at"] for r in p if success(r) == 1) for s, p in by_step.items()}
    same(line(found, "lengths-outcome", "correct"), correct)
    cut = {step: mean(float(r["stop"] != "stop") for r in part) for step, part in by_step.items()}
    same(line(found, "lengths-truncated", "all"), cut)
    for series in figure_of(found, "lengths-bars").series:
        assert sum(series.y) == pytest.approx(1)
    # With seven steps the first and the last are the two ends.
    early = next(
        c for c in table_of(found, "lengths-table") if c["when"].startswith("first") and c["outcome"] == "correct"
    )
    assert early["mean"] == pytest.approx(correct[1])
    assert "The mean changed by" in next(t for t in found.tables if t.id == "lengths-table").note


def test_lengths_without_tokens_are_in_characters():
    found = lengths.section(run_of_rows([row(tokens=None, text="four"), row(member=1, tokens=None, text="sixsix")]))
    assert "characters" in found.text
    same(line(found, "lengths-quantiles", "median"), {1: 5.0})


# verdicts and sampler


@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_are_counted_with_their_reasons(seed):
    rows = random_rows(seed)
    found = verdicts.section(run_of_rows(rows))
    counts = Counter(one["outcome"] for one in rows if one["outcome"])
    assert {cells["verdict"]: cells["rollouts"] for cells in table_of(found, "verdicts-counts")} == counts
    slowest = [cells["seconds"] for cells in table_of(found, "verdicts-slowest")]
    assert slowest == sorted((one["seconds"] for one in rows), reverse=True)[:10]
    (reason,) = table_of(found, "verdicts-reasons")  # numbers in them are no reason of their own
    assert (reason["verdict"], reason["detail"], reason["rollouts"]) == ("error", "step # of # failed", counts["error"])
    names = {
        (f"{one['group_id']}/{one['member']}", one["step"], one["problem_id"])
        for one in rows
        if one["outcome"] == "error"
    }
    place = reason["example"]
    assert (place.rollout, place.step, place.problem) in names
    seconds = {s: float(np.median([r["seconds"] for r in part])) for s, part in grouped(rows, "step").items()}
    same(line(found, "verdicts-seconds", "median"), seconds)


def test_gauges_come_from_metrics_and_age_from_versions():
    metrics = {"step": np.array([1.0, 2.0]), "learn/branch/kl_old": np.array([np.nan, 0.25]), "learn/loss": np.ones(2)}
    rows = [row(step=s, member=m, policy_version=s - 1 - 2 * m) for s in (1, 2) for m in (0, 1)]
    found = sampler.section(run_of_rows(rows, metrics=metrics))
    same(line(found, "sampler-divergence-from-the-policy-that-sampled", "branch/kl_old"), {2.0: 0.25})
    same(line(found, "sampler-age", "mean"), {1: 1.0, 2: 1.0})
    same(line(found, "sampler-age", "oldest"), {1: 2.0, 2: 2.0})
    on_policy = [row(step=s, policy_version=s - 1) for s in (1, 2)]
    assert sampler.section(run_of_rows(on_policy)) is None
    counts_otherwise = [row(step=s, policy_version=100 * s) for s in (1, 2)]
    assert sampler.section(run_of_rows(counts_otherwise)) is None


# credit, diversity, frontier


def test_the_weight_of_a_group_is_that_of_its_trained_members_and_its_place_that_of_its_first_draw():
    rows = [
        row(member=m, outcome="correct" if m == 0 else "incorrect", advantage=a)
        for m, a in enumerate([3.0, -1.0, -1.0, -1.0])
    ]
    rows += [row(member=4, stage="1-more", outcome="correct", advantage=2.0)]
    rows += [row(member=5, stage="1-more", outcome="correct", advantage=9.0, unused="cut")]
    rows += [row(problem_id="q", member=m, advantage=0.0) for m in range(4)]
    never, quarter = table_of(credit.section(run_of_rows(rows)), "credit-table")
    assert (never["success"], never["weight per group"], never["share of weight"]) == ("0 %", 0, 0)
    assert (quarter["success"], quarter["weight per group"], quarter["rollouts per group"]) == ("up to 25 %", 8, 6)
    up = line(credit.section(run_of_rows(rows)), "credit-signs", "per rollout")
    same(up, {1: 5 / 8})


@pytest.mark.parametrize("seed", SEEDS)
def test_disagreement_is_the_share_of_pairs_that_differ(seed):
    rows = random_rows(seed)
    found = diversity.section(run_of_rows(rows))
    differ: dict[int, list[float]] = defaultdict(list)
    repeated: dict[int, list[int]] = defaultdict(list)
    for (step, _), group in grouped(rows, "step", "problem_id").items():
        roots = [one for one in group if one["parent"] is None]
        answers = [one["answer"] for one in roots if one["answer"]]
        if len(answers) > 1:
            differ[step].append(mean(float(a != b) for a, b in itertools.combinations(answers, 2)))
        if len(roots) > 1:
            seen: set[str] = set()
            for one in roots:
                repeated[step].append(one["text"] in seen)
                seen.add(one["text"])
    same(line(found, "diversity-answers", "two answers differ"), {s: mean(d) for s, d in differ.items()})
    same(line(found, "diversity-repeats", "repeated"), {s: mean(map(float, r)) for s, r in repeated.items()})


def test_the_frontier_of_training_is_pass_at_k_by_enumeration_of_first_draws():
    marks = {1: "c---", 2: "cc--", 3: "----", 4: "cccc"}
    rows = [
        row(step=s, member=m, outcome="correct" if c == "c" else "incorrect")
        for s, text in marks.items()
        for m, c in enumerate(text)
    ]
    planned = row(step=1, member=4, stage="1-more", outcome="correct")  # as it went so far decided on it
    seeded = row(step=1, member=5, context="seeded", outcome="correct")
    branch = row(step=1, member=6, parent="train:1:p/0", branch_at=2, outcome="correct")
    rows += [planned, seeded, branch, row(step=1, member=7, outcome="timeout")]
    found = frontier.section(run_of_rows(rows))
    for name, text in (("first fifth of the steps", marks[1]), ("last fifth", marks[4])):
        wanted = {k: mean(float("c" in pick) for pick in itertools.combinations(text, k)) for k in (1, 2, 4)}
        same(line(found, "frontier-curves", name), wanted)


def test_problems_without_a_hint_are_no_first_draws_of_all():
    """Which problems have none changes with the run: no curve of training, and no weight by accuracy."""
    rows = [
        row(step=s, problem_id=p, group_id=f"{s}:{p}", member=m, context=context, outcome="correct", advantage=0.5)
        for s in (1, 2, 3, 4)
        for p, context in (("a", "plain"), ("b", "seeded"))
        for m in (0, 1)
    ]
    run = run_of_rows(rows)
    assert frontier.section(run) is None
    shown = credit.section(run)
    assert shown is None or not shown.tables


@pytest.mark.parametrize("steps", [10, 25])
def test_groups_of_one_problem_in_several_steps_are_one_cluster(steps):
    """The same 12 problems with the same outcomes in every step: 5 early steps say no more about others than one."""

    def early(steps: int) -> Series:
        rows = [
            row(step=s, problem_id=f"p{p}", member=m, outcome="correct" if m < p % 5 else "incorrect")
            for s in range(1, steps + 1)
            for p in range(12)
            for m in range(4)
        ]
        return figure_of(frontier.section(run_of_rows(rows)), "frontier-curves").series[0]

    once, again = early(5), early(steps)
    assert again.hover == once.hover == ["12 problems"] * 3
    assert (again.low, again.high) == (pytest.approx(once.low, abs=0.02), pytest.approx(once.high, abs=0.02))
    assert again.high[0] - again.low[0] > 0.2


def test_the_frontier_of_evaluations_has_their_intervals_and_paired_changes():
    from forests import rollout

    problems = [Problem("a", "?", level="easy"), Problem("b", "?", level="hard")]

    def evaluation(successes: dict[str, str]):
        drawn = []
        for problem in problems:
            for member, mark in enumerate(successes[problem.id]):
                one = rollout(member, [True])
                drawn.append(_verified(one, problem.id, mark == "c"))
        return evaluate(problems, drawn, resamples=50)

    run = run_of_rows([], evaluations={0: evaluation({"a": "c-", "b": "--"}), 5: evaluation({"a": "cc", "b": "c-"})})
    found = frontier.section(run)
    same(line(found, "frontier-along", "pass@1"), {0: 0.25, 5: 0.75})
    same(line(found, "frontier-plane", "along training"), {0.25: 0.5, 0.75: 1.0})
    assert [cells["pass@1"].value for cells in table_of(found, "frontier-changes")] == [0.5, 0.5, 0.5]
    assert [cells["pass@2"].value for cells in table_of(found, "frontier-changes")] == [0.0, 1.0, 0.5]


def _verified(one: Any, problem: str, good: bool) -> Any:
    from dataclasses import replace

    from outrider.record.verdict import correct, incorrect

    return replace(one, problem_id=problem, group_id=f"e:{problem}").verified(
        correct() if good else incorrect(), float(good)
    )


def test_calibration_excludes_the_first_step():
    told = {"rollouts": [8, 6, 2], "expected": [4, 1.5, 0.5], "variance": [2, 0.75, 0.25], "successes": [8, 3, 1]}
    metrics = {"step": np.array([1.0, 2.0, 3.0])}
    metrics |= {f"explore/choose/calibration_3_{name}": np.array(values, float) for name, values in told.items()}
    metrics |= {f"explore/choose/calibration_0_{name}": np.zeros(3) for name in told}  # a class that nothing fell into
    metrics |= {f"explore/invest/calibration_0_{name}": np.zeros(3) for name in told}
    found = calibration.section(run_of_rows([row()], metrics=metrics))
    [seen] = table_of(found, "calibration-choose")
    assert seen == {"rollouts": 8, "predicted": 0.25, "observed": 0.5, "z": pytest.approx(2.0)}
    assert line(found, "calibration-choose", "observed") == {0.25: 0.5}
    assert [figure.id for figure in found.figures] == ["calibration-choose"]
    assert calibration.section(run_of_rows([row()], metrics={"step": np.ones(1)})) is None


def test_the_calibration_interval_is_that_of_the_successes():
    """1.96 standard deviations of 2 of 8 successes whose variance is 1, clipped to the range of a share."""
    told = {"rollouts": 8.0, "expected": 2.0, "variance": 1.0, "successes": 2.0}
    metrics = {"step": np.array([2.0])} | {f"explore/a/calibration_1_{k}": np.array([v]) for k, v in told.items()}
    first, _ = figure_of(calibration.section(run_of_rows([row()], metrics=metrics)), "calibration-a").series
    assert (first.low, first.high) == ([pytest.approx(0.25 - 1.96 / 8)], [pytest.approx(0.25 + 1.96 / 8)])
    assert line(calibration.section(run_of_rows([row()], metrics=metrics)), "calibration-a", "if calibrated") == {
        0.25: 0.25
    }
