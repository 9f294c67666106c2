"""Which of two evaluations is better at what, on which parts, and how many problems decide it."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from plain_rows import row, run_of_rows, table

import dumps
from outrider.cli import main
from outrider.measure import Evaluation, Tally
from outrider.measure.evaluation import of_tallies
from outrider.measure.tally import TallyEntry
from outrider.report.compare_command import comparison
from outrider.report.comparing.paired import pair
from outrider.report.comparing.sentences import better, by_part, decided, sentences


def tally(name: str, successes: int, n: int = 8, level: str = "", test_set: str = "") -> Tally:
    outcomes = ["correct"] * successes + ["incorrect"] * (n - successes)
    return Tally.count(name, level, [TallyEntry(o, "", False, 1, 0.0, 0) for o in outcomes], [], test_set)


def greedy(name: str, right: bool) -> Tally:
    return Tally.count(name, "", [], [TallyEntry("correct" if right else "incorrect", "", False, 1, 0.0, 0)])


def evaluation(counts: dict[str, int], **labels: str) -> Evaluation:
    return of_tallies([tally(name, c, **labels) for name, c in counts.items()])


def found(before: list[int], after: list[int]):
    sides = [evaluation({f"p{i}": c for i, c in enumerate(counts)}) for counts in (before, after)]
    return pair("a", sides[0], "b", sides[1])


def test_the_first_sentence_says_who_is_better_at_what():
    rose = found([2] * 30, [4, 3] * 15)
    assert better(rose).startswith("`b` is 18.8 percentage points better than `a` at pass@1 (95 % CI ")
    assert better(rose).endswith("; at pass@8 there is no significant difference (0.0 points, 95 % CI +0.0 to +0.0).")
    sharpened = found([1] * 20 + [6] * 20, [0] * 20 + [8] * 20)
    assert "`b` is 6.2 percentage points better than `a` at pass@1" in better(sharpened)
    assert "; but it is 50.0 percentage points worse at pass@8 (95 % CI 35.0 to 65.0)." in better(sharpened)
    fell = found([4, 3] * 15, [2] * 30)
    assert better(fell).startswith("`b` is 18.8 percentage points worse than `a` at pass@1 (95 % CI ")
    alike = found([3, 4, 5, 2] * 5, [4, 3, 4, 3] * 5)
    assert better(alike).startswith("There is no significant difference between `b` and `a` at pass@1 (0.0 points, ")
    assert "; nor at pass@8 (" in better(alike)


def test_a_difference_that_only_pass_at_k_shows_comes_first():
    counts = [0, 5] * 15
    explored = found(counts, [1, 4] * 15)
    assert better(explored).startswith("`b` is 50.0 percentage points better than `a` at pass@8 (95 % CI ")
    assert "; at pass@1 there is no significant difference (0.0 points" in better(explored)


def test_the_problems_that_decide_are_counted_in_a_sentence():
    carried = found([0, 0, 0, 0, 0, 0] + [4] * 14, [8, 8, 8, 8, 8, 8] + [4] * 14)
    text = sentences(carried)
    assert (
        "Of the 20 problems that `b` and `a` have in common, `b` has the higher pass rate on 6 and the lower on 0; "
        "14 are tied. The pass rate of `b` is significantly higher on 6 of these problems and significantly lower on "
        "0." in text
    )
    few = carried.decision.decisive
    assert decided(carried) == (
        f"Without the {few} problems that favour `b` most, the interval of the difference in pass@1 would include 0."
    )
    assert 1 < few < 6
    back = found([8, 8, 8, 8, 8, 8] + [4] * 14, [0, 0, 0, 0, 0, 0] + [4] * 14)
    assert f"Without the {carried.decision.decisive} problems that favour `a` most" in decided(back)


def test_what_would_be_needed_is_said_where_nothing_is_decided():
    open_ = found([0, 8, 0, 8, 0], [8, 0, 8, 0, 1])
    assert decided(open_) == (
        "pass@1 does not differ significantly: a true difference of the observed 2.5 points would be detected with "
        f"about {open_.decision.needed_problems:,} similar problems (power 80 %); more samples of these problems alone "
        "would not be enough."
    )
    noisy = found([4, 3, 4, 5] * 5, [5, 3, 4, 5] * 5)
    noisy_text = decided(noisy)
    if noisy.decision.decisive is None:
        assert f"or about {noisy.decision.needed_samples:,} samples of each of these problems." in noisy_text
    same = found([3, 4, 5], [3, 4, 5])
    assert decided(same) == "Both runs have equal pass@1 on average."


def test_greedy_decoding_alone_is_compared_as_one_sample_of_each():
    sides = [of_tallies([greedy(f"p{i}", i % 4 < right) for i in range(40)]) for right in (1, 3)]
    one = pair("a", sides[0], "b", sides[1])
    assert better(one).startswith("`b` is 50.0 percentage points better than `a` with greedy decoding (95 % CI ")
    assert "`b` alone solves 20 and `a` alone 0; on 20 they agree." in sentences(one)
    assert "significantly higher" not in sentences(one)
    mixed = pair("a", sides[0], "b", evaluation({f"p{i}": 3 for i in range(40)}))
    assert better(mixed) == "`b` and `a` have no metric in common, so they are not compared."


def parted(counts: dict[tuple[str, str], tuple[int, int]]) -> tuple[Evaluation, Evaluation]:
    """Twelve problems in each part, with so many of 8 right before and after, and a little spread."""
    sides = []
    for side in (0, 1):
        rates = [
            tally(f"{s}{level}{i}", max(0, min(8, c[side] + (side and i % 3 - 1))), level=level, test_set=s)
            for (s, level), c in counts.items()
            for i in range(12)
        ]
        sides.append(of_tallies(rates))
    return sides[0], sides[1]


def test_parts_are_named_by_adjusted_p_values_alone():
    before, after = parted({("one", "1"): (2, 5), ("one", "2"): (5, 5), ("two", ""): (5, 2)})
    one = pair("a", before, "b", after)
    assert {(p.kind, p.name) for p in one.parts} == {
        ("test set", "one"),
        ("test set", "two"),
        ("level", "one/1"),
        ("level", "one/2"),
    }
    told = by_part(one)
    assert told.startswith(
        "By test set and level, `b` is better on `one` at pass@1 (+18.8 points) and `one/1` at pass@1 (+"
    )
    assert "; worse on `two` at pass@1 (-37.5 points)" in told
    assert "one/2" not in told
    tests = len(one.parts)
    assert (
        f"; the other {tests - 3} differences are not significant ({tests} tests, p-values adjusted by Holm)." in told
    )
    single = pair(
        "a", *[evaluation({"p": 1, "q": c}, level="1") for c in (1, 2)][:1], "b", evaluation({"p": 1, "q": 2})
    )
    assert (single.parts, by_part(single)) == ([], "")


def test_intervals_that_do_not_survive_the_adjustment_are_counted():
    before, after = parted({("s", str(level)): (4, 5 if level == 0 else 4) for level in range(8)})
    one = pair("a", before, "b", after)
    clear = [part for part in one.parts if part.significant]
    alone = [part for part in one.parts if part.change.excludes_zero]
    assert len(alone) > len(clear) == 0
    assert by_part(one).startswith(
        "No difficulty level has a significant difference (16 tests, p-values adjusted by Holm)"
    )
    assert f"although {len(alone)} of the unadjusted 95 % intervals" in by_part(one)


def sample(problem, member, right, **more):
    """A verified response of an evaluation."""
    outcome = "correct" if right else "incorrect"
    return row(split="evaluate", step=0, problem_id=f"p{problem}", member=member, outcome=outcome, **more)


def test_the_page_and_the_data_hold_the_numbers_of_the_sentences():
    runs = []
    for more in (0, 2):
        rows = [sample(p, m, m < p % 4 + more * (p % 2), level=str(p % 2)) for p in range(40) for m in range(8)]
        runs.append(run_of_rows(rows))
    report, [text] = comparison([replace(run, name=name) for run, name in zip(runs, "xy", strict=True)])
    assert report.opening.text == text
    ids = [t.id for t in report.opening.tables]
    assert ids == ["opening-pass-at-k", "opening-decision", "opening-parts"]
    section = next(s for s in report.sections if s.id == "deciding")
    assert [t.id for t in section.tables] == ["decision", "parts", "problems"]
    decision = dict(zip(section.tables[0].columns, section.tables[0].rows[0], strict=True))
    assert (decision["won"], decision["lost"], decision["tied"]) == (20, 0, 20)
    parts = {cells[0]: cells for cells in section.tables[1].rows}
    assert parts["1"][2].value == pytest.approx(0.25)
    assert parts["0"][2].value == 0
    assert parts["1"][3] < 0.001 < parts["0"][3]
    assert "`y` is better on `level 1` at pass@1 (+25.0 points)" in text
    problems = section.tables[2]
    assert len(problems.rows) == 20
    assert {cells[0].problem for cells in problems.rows} == {f"p{p}" for p in range(1, 40, 2)}
    assert {round(cells[-1], 6) for cells in problems.rows} == {0.25}


# models of one dump


def lm_eval(folder, models):
    for model, right in models.items():
        records = [
            dumps.lm_eval(i, [f"r{i}"], {"exact_match": float(i % 5 < right)}) | {"doc_hash": f"h{i}"}
            for i in range(40)
        ]
        dumps.lines(folder / model / "samples_x_2026-01-01T00-00-00.5.jsonl", records)
    return folder


def test_one_dump_of_several_models_is_a_comparison(tmp_path, capsys):
    folder = lm_eval(tmp_path / "evals", {"base": 2, "rl": 4})
    assert main(["compare", str(folder), "--out", str(tmp_path / "there")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(
        "Comparison of base and rl rl is 40.0 percentage points better than base with greedy decoding"
    )
    told = json.loads((tmp_path / "there" / "compare.json").read_text())
    [decided] = next(t for t in told["opening"]["tables"] if t["id"] == "opening-decision")["rows"]
    assert decided[2:5] == [16, 0, 24]
    one = lm_eval(tmp_path / "one", {"base": 2})
    assert main(["compare", str(one)]) == 2
    assert "a comparison needs at least two runs" in capsys.readouterr().err


def test_equal_names_of_models_in_two_dumps_are_distinguished(tmp_path, capsys):
    old, new = (lm_eval(tmp_path / name, {"base": right, "rl": 4}) for name, right in (("old", 2), ("new", 3)))
    assert main(["compare", str(old), str(new), "--out", str(tmp_path / "there")]) == 0
    told = json.loads((tmp_path / "there" / "compare.json").read_text())
    block = next(t for t in told["opening"]["tables"] if t["id"] == "opening-decision")
    assert [cells[0] for cells in block["rows"]] == ["old: rl", "new: base", "new: rl"]


def test_a_table_of_plain_rollouts_may_name_models_without_marking_ids(tmp_path, capsys):
    rows = [sample(p, m, m < c, model=model) for model, c in (("a", 1), ("b", 3)) for p in range(20) for m in range(4)]
    pq.write_table(table(rows), tmp_path / "rows.parquet")
    assert main(["compare", str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "there")]) == 0
    assert "b is 50.0 percentage points better than a at pass@1" in " ".join(capsys.readouterr().out.split())
