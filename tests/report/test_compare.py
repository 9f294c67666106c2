"""Runs at equal tokens: where each is cut, what is read there, and how it differs from the first."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_rows import random_rows, row, run_of_rows, table

from outrider.cli import main
from outrider.measure import Evaluation, compare, evaluate
from outrider.record import Outcome, Problem, Rollout, StopReason, Verdict
from outrider.report.compare_command import comparison
from outrider.report.comparing import settings as compared_settings
from outrider.report.comparing import training
from outrider.report.comparing.cut_runs import cut_at_equal_tokens
from outrider.report.comparing.evaluated import evaluations_of
from outrider.report.data import RunData
from outrider.report.run import columns, open_run
from runs import run_of

NONE = np.zeros(0, np.int32)


def sampled(problem: str, right: bool, nats: float = 0.5, tokens: int = 2) -> Rollout:
    return Rollout(
        problem,
        f"evaluate:{problem}",
        0,
        NONE,
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.float32),
        NONE,
        entropies_T=np.full(tokens, nats, np.float32),
        verdict=Verdict(Outcome.CORRECT if right else Outcome.INCORRECT, float(right)),
    )


def evaluated(rates: dict[str, int], n: int = 4, nats: float = 0.5) -> Evaluation:
    """So many of ``n`` samples right, by problem."""
    problems = [Problem(p, "", level=p[0]) for p in rates]
    return evaluate(problems, [sampled(p, i < c, nats) for p, c in rates.items() for i in range(n)])


def trained(name: str, step_tokens: list[int], at: dict[int, Evaluation], **config: object) -> RunData:
    """A run that generated so many tokens in each step, two problems with two rollouts in each."""
    rows = [
        row(step=s, problem_id=f"t{p}", member=m) for s in range(1, len(step_tokens) + 1) for p in "ab" for m in (0, 1)
    ]
    spent = zip(range(1, len(step_tokens) + 1), np.cumsum(step_tokens).tolist(), strict=True)
    metrics = columns([{"step": step, "tokens": tokens} for step, tokens in spent])
    return replace(run_of_rows(rows, metrics=metrics, evaluations=at, config=config), name=name)


EQUAL = {"a1": 1, "b1": 2}


# where runs are cut


def test_each_run_ends_with_the_first_step_that_reaches_the_smallest_total():
    any_of_them = evaluated(EQUAL)
    short = trained("short", [10] * 10, {0: any_of_them, 10: any_of_them})
    long = trained("long", [30] * 6, {0: any_of_them, 3: any_of_them, 4: any_of_them, 6: any_of_them})
    sparse = trained("sparse", [60] * 9, {0: any_of_them, 1: any_of_them, 9: any_of_them})
    alone = replace(run_of_rows([row(split="evaluate", step=0)]), name="alone", evaluations={0: any_of_them})
    budget, found = cut_at_equal_tokens([short, long, sparse, alone])
    assert budget == 100
    # 30 + 30 + 30 = 90 is not there yet, 120 is; 60 is not, 120 is, but there is no evaluation after the first step
    assert [(one.step, one.tokens_at(one.step)) for one in found] == [(10, 100), (4, 120), (1, 60), (0, 0)]
    assert [list(one.run.evaluations) for one in found[1:3]] == [[0, 3, 4], [0, 1]]
    assert [len(one.run.metrics.get("step", [])) for one in found] == [10, 4, 2, 0]
    steps = [one.run.query("SELECT max(step) AS s FROM rollouts")["s"][0] for one in found]
    assert steps == [10, 4, 2, 0]
    assert [one.total_tokens for one in found[:3]] == [100, 180, 540]
    text = compared_settings.section(found, budget).text
    assert (
        "The last evaluation of `sparse` is at step 1, after 60 tokens: its held-out numbers are those after 60%"
        in text
    )
    assert "`alone` has no training" in text
    assert "`long`" not in text


def test_a_last_step_that_went_a_little_beyond_the_others_still_counts():
    """All stop at 100 tokens; who overshoots least sets the number, and nobody falls back to an earlier evaluation."""
    last = evaluated(EQUAL)
    runs = [trained(str(i), [over] * 9, {4: last, 9: last}) for i, over in enumerate((12, 13, 15))]
    budget, found = cut_at_equal_tokens([replace(r, metrics=_until(r, 100)) for r in runs])
    assert budget == 104
    assert [one.steps_S[-1] for one in found] == [9, 8, 7]


def _until(run: RunData, limit: int):
    kept = 1 + int(np.searchsorted(run.metrics["tokens"], limit))
    return {name: values[:kept] for name, values in run.metrics.items()}


@settings(max_examples=10, deadline=None)
@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=8), min_size=1, max_size=3))
def test_no_run_could_have_been_cut_earlier_or_was_cut_too_early(spent):
    budget, found = cut_at_equal_tokens([trained(str(i), steps, {}) for i, steps in enumerate(spent)])
    assert budget == min(map(sum, spent))
    for one, steps in zip(found, spent, strict=True):
        assert sum(steps[: len(one.steps_S)]) >= budget > sum(steps[: len(one.steps_S) - 1])
        assert one.step is None
        one.run.db.close()


def test_a_run_on_disk_and_a_table_in_memory_are_cut_alike(tmp_path):
    for name, steps in (("short", 2), ("long", 5)):
        run_of(tmp_path / name, steps).close()
    dump = run_of_rows(
        [row(step=s, member=m, tokens=1) for s in range(1, 9) for m in (0, 1)]
    )  # 2 tokens a step, as on disk
    budget, found = cut_at_equal_tokens([open_run(tmp_path / "short"), open_run(tmp_path / "long"), dump])
    assert budget == 4
    for one in found:
        assert one.run.query("SELECT DISTINCT step FROM rollouts ORDER BY step")["step"].tolist() == [1, 2]
    assert {name: len(values) for name, values in found[1].run.metrics.items()} == {"step": 2, "reward": 2}


def test_curves_stand_at_tokens_and_end_where_the_runs_are_cut():
    runs = [trained("a", [10] * 3, {}), trained("b", [4, 30, 30], {})]
    sections = {section.id: section for section in training.sections(cut_at_equal_tokens(runs)[1])}
    lines = {f.id: [(s.name, s.x, s.y) for s in f.series] for s in sections.values() for f in s.figures}
    assert lines["unsolved"] == [("a", [10, 20, 30], [1, 1, 1]), ("b", [4, 34], [1, 1])]
    assert lines["entropy"] == [("a", [10, 20, 30], [0.5] * 3), ("b", [4, 34], [0.5] * 2)]
    assert [row[:2] for row in sections["budget"].tables[0].rows] == [["a", "0-uniform"], ["b", "0-uniform"]]


# what is read there


def test_a_dump_is_counted_as_its_rollouts_would_have_been():
    rows = [
        r | {"split": "greedy" if r["member"] == 5 else "evaluate", "parent": None} for r in random_rows(3, steps=3)
    ]
    verified = [r for r in rows if r["outcome"] is not None]
    found = evaluations_of(run_of_rows(verified))
    assert sorted(found) == [1, 2, 3]
    for step, evaluation in found.items():
        here = [r for r in verified if r["step"] == step]
        problems = [Problem(p, "", level=r["level"]) for p, r in sorted({r["problem_id"]: r for r in here}.items())]
        parts = [[_rollout(r) for r in here if r["split"] == split] for split in ("evaluate", "greedy")]
        expected = evaluate(problems, *parts)
        assert [t.problem for t in evaluation.tallies] == [t.problem for t in expected.tallies]
        for tally, other in zip(evaluation.tallies, expected.tallies, strict=True):
            assert repr(replace(tally, entropy_sum=0.0)) == repr(replace(other, entropy_sum=0.0))
            assert tally.entropy_sum == pytest.approx(other.entropy_sum, rel=1e-5)  # float32 on disk


def _rollout(r: dict) -> Rollout:
    n = r["tokens"]
    entropies = None if r["entropy"] is None else np.full(n, r["entropy"], np.float32)
    verdict = Verdict(Outcome(r["outcome"]), float(r["outcome"] == "correct"), answer=r["answer"])
    arrays = (NONE, np.zeros(n, np.int32), np.zeros(n, np.float32), NONE)
    stop = StopReason(r["stop"])
    return Rollout(r["problem_id"], "g", r["member"], *arrays, entropies_T=entropies, stop=stop, verdict=verdict)


# what differs


def test_differences_are_means_over_the_problems_that_both_have():
    first = {"a1": 0, "a2": 2, "b1": 4, "b2": 1, "b3": 1}
    other = {"a1": 1, "a2": 4, "b1": 4, "b2": 3, "c1": 4}
    runs = [trained("x", [1], {1: evaluated(first)}), trained("y", [1], {1: evaluated(other, nats=0.75)})]
    report, (sentences,) = comparison(runs)
    section = next(section for section in report.sections if section.id == "differences")
    overall, levels = section.tables
    told = dict(zip(overall.columns, overall.rows[0], strict=True))
    assert told["problems"] == 4
    assert told["pass@1"].value == pytest.approx((1 + 2 + 0 + 2) / 4 / 4)
    assert told["pass@4"].value == pytest.approx(1 / 4)  # only a1 was out of reach
    assert told["entropy"].value == pytest.approx(0.25)
    assert "2 problems that only one of the two has are excluded" in sentences
    assert [(r[1], r[3].value) for r in levels.rows] == [("a", pytest.approx(3 / 8)), ("b", pytest.approx(1 / 4))]
    low, high = np.quantile(_resampled([1 / 4, 2 / 4, 0, 2 / 4]), [0.025, 0.975])
    assert told["pass@1"][1:] == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01), 4)
    assert (overall.units["pass@1"], "entropy" in overall.units) == ("points", False)
    assert sentences.endswith("Also significantly different: entropy (+0.250 nats, 95 % CI +0.250 to +0.250).")
    better, by_part, _ = sentences.split("\n\n")
    assert better.startswith(f"`y` is 31.2 percentage points better than `x` at pass@1 (95 % CI {100 * low:.1f} to ")
    assert better.endswith("; at pass@4 there is no significant difference (+25.0 points, 95 % CI +0.0 to +75.0).")
    assert by_part.startswith("No difficulty level has a significant difference (4 tests, p-values adjusted by Holm)")
    assert "`y` has the higher pass rate on 3 and the lower on 0; 1 are tied." in sentences


def _resampled(values: list[float]) -> np.ndarray:
    """Every way to draw as many problems as there are, with replacement: what the bootstrap samples from."""
    grids = np.meshgrid(*[values] * len(values))
    return np.mean([grid.ravel() for grid in grids], axis=0)


def test_entropies_are_per_token_and_their_interval_that_of_resampled_ratios():
    rng = np.random.default_rng(0)
    sides, sums = [], []
    for scale in (1.0, 1.3):
        tokens, nats = rng.integers(5, 60, 40), rng.gamma(2.0, 0.1 * scale, 40).astype(np.float32)
        rollouts = [sampled(f"p{i}", False, float(nats[i]), int(tokens[i])) for i in range(40)]
        sides.append(evaluate([Problem(f"p{i}", "") for i in range(40)], rollouts, resamples=4000))
        sums.append((tokens * nats.astype(float), tokens.astype(float)))
    found = compare(*sides).overall.entropy
    assert found.value == pytest.approx(sides[1].overall.entropy - sides[0].overall.entropy)
    drawn = rng.integers(40, size=(4000, 40))
    ratios = [n[drawn].sum(1) / t[drawn].sum(1) for n, t in sums]
    low, high = np.quantile(ratios[1] - ratios[0], [0.025, 0.975])
    width = high - low
    assert found.low == pytest.approx(low, abs=0.1 * width)
    assert found.high == pytest.approx(high, abs=0.1 * width)


def test_what_cannot_be_paired_is_said_and_hides_nothing_else():
    runs = [
        trained("x", [1], {1: evaluated({"a": 1})}),
        trained("y", [1], {1: evaluated({"b": 1})}),
        trained("z", [1], {}),
    ]
    report, sentences = comparison(runs)
    assert sentences == [
        "`y` and `x` have no problem in common, so no paired difference exists.",
        "`z` has no evaluation, so the pair `z` and `x` is not compared.",
    ]
    assert {"compared", "frontier", "groups"} <= {section.id for section in report.sections}
    assert all(sentence in report.sections[1].text for sentence in sentences)


def test_settings_that_differ_are_told_at_their_deepest_key():
    configs = [
        {"learn": {"lr": r, "x": 1}, "credit": {"main": [c]}, "seed": s} for r, c, s in ((1, "a", 0), (2, "b", 1))
    ]
    runs = [trained(str(i), [1], {}, **config) for i, config in enumerate(configs)]
    (shown,) = compared_settings.section(*reversed(cut_at_equal_tokens(runs))).tables
    assert shown.rows == [["learn.lr", "1", "2"], ["credit.main.0", "a", "b"]]


# the command


def test_dumps_are_compared_by_the_command_line(tmp_path, capsys):
    paths = []
    for seed, name in enumerate(("one", "two")):
        rows = [r | {"split": "evaluate"} for r in random_rows(seed, steps=1, groups=8)]
        paths.append(tmp_path / f"{name}.parquet")
        pq.write_table(table(rows), paths[-1])
    assert main(["compare", *map(str, paths), "--out", str(tmp_path / "there")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    first = json.loads((tmp_path / "there" / "compare.json").read_text())["opening"]["text"].partition("\n\n")[0]
    assert f"Comparison of one and two {first.replace('`', '')}" in printed
    assert "None of these runs has training with known token counts" in printed
    assert sorted(p.name for p in (tmp_path / "there").iterdir()) == ["compare.html", "compare.json"]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a.parquet"], "a comparison needs at least two runs; for one run use `outrider report`"),
        (["a.parquet", "./a.parquet"], "the same run is given twice"),
        (["a.parquet", "nowhere"], "there is nothing at nowhere"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, monkeypatch, capsys, names, sentence):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table([row()]), tmp_path / "a.parquet")
    assert main(["compare", *names]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_tokens_of_a_step_that_is_not_known_are_not_made_up():
    rows = [row(step=s, tokens=None if s == 2 else 5) for s in (1, 2, 3)]
    budget, (one,) = cut_at_equal_tokens([run_of_rows(rows)])
    assert math.isnan(budget)
    assert (len(one.tokens_S), one.total_steps) == (0, 3)
