"""The report of an evaluation: how good the policy is in a sentence, by test set, level and model, and how reliably."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from plain_rows import row, run_of_rows

import dumps
from outrider.cli import main
from outrider.report.build import build
from outrider.report.content import Report, TableBlock
from outrider.report.page import render

COUNTS = {
    # (test set, level): successes of 4 of each problem
    ("alpha", "1"): [4, 4, 3, 4, 2, 3],
    ("alpha", "2"): [1, 2, 0, 3, 1, 0],
    ("beta", None): [0, 0, 1, 0],
}


def asked(counts=COUNTS, n: int = 4, model: str | None = None, **values) -> list[dict[str, object]]:
    return [
        row(
            split="evaluate",
            step=0,
            problem_id="/".join(filter(None, [model, test_set, f"{level or ''}{p}"])),
            member=m,
            test_set=test_set,
            level=level,
            model=model,
            outcome="correct" if m < c else "incorrect",
            answer="right" if m < c else f"wrong {m}",
            **values,
        )
        for (test_set, level), of in counts.items()
        for p, c in enumerate(of)
        for m in range(n)
    ]


def table(report: Report, id: str) -> TableBlock:
    everywhere = [t for section in (report.opening, *report.sections) for t in section.tables]
    return next(t for t in everywhere if t.id == id)


def values(block: TableBlock) -> dict[str, dict[str, float]]:
    """Numbers by the first cell of a row and the column."""
    return {
        str(cells[0]): {
            name: getattr(cell, "value", cell) for name, cell in zip(block.columns[1:], cells[1:], strict=True)
        }
        for cells in block.rows
    }


def mean_over_subsets(counts: list[int], k: int, solved) -> float:
    """Over all subsets of k of the 4 samples at a problem, and over problems."""
    samples = [[True] * c + [False] * (4 - c) for c in counts]
    return float(np.mean([np.mean([solved(sum(s)) for s in combinations(t, k)]) for t in samples]))


def test_test_sets_and_levels_have_their_rows_each_counted_by_hand():
    report = build(run_of_rows(asked()))
    block = table(report, "opening-scores")
    assert (block.title, block.columns[0]) == ("By test set and level", "test set, level")
    found = values(block)
    assert list(found) == ["alpha", "beta", "alpha/1", "alpha/2", "all"]
    alpha = COUNTS["alpha", "1"] + COUNTS["alpha", "2"]
    whole = alpha + COUNTS["beta", None]
    parts = {"alpha": alpha, "beta": COUNTS["beta", None], "alpha/2": COUNTS["alpha", "2"], "all": whole}
    for name, counts in parts.items():
        assert found[name]["problems"] == len(counts)
        assert found[name]["pass@1"] == pytest.approx(np.mean(counts) / 4)
        assert found[name]["pass@4"] == pytest.approx(mean_over_subsets(counts, 4, lambda s: s > 0))
        # of all four samples, 3 are more than half: half of the shares from 0.5 to 1 ask for 3, half for 4
        reliable = [mean_over_subsets(counts, 4, lambda s, least=least: s >= least) for least in (3, 4)]
        assert found[name]["mG-Pass@4"] == pytest.approx(np.mean(reliable))
    # "right" is named most often with 2 of 4, as wrong answers differ; one of four answers is one of four winners
    assert found["alpha/1"]["majority"] == 1.0
    assert found["beta"]["majority"] == pytest.approx(0.25 / 4)


def test_reliability_is_counted_over_subsets_for_every_k():
    block = table(build(run_of_rows(asked())), "reliability")
    whole = [c for of in COUNTS.values() for c in of]
    assert block.columns == ["k", "pass@k", "G-Pass@k, 50%", "G-Pass@k, 75%", "pass^k (100%)", "mG-Pass@k"]
    for k, least in ((2, (1, 1, 2, 2)), (4, (1, 2, 3, 4))):
        cells = next(cells for cells in block.rows if cells[0] == k)
        expected = [mean_over_subsets(whole, k, lambda s, at_least=at_least: s >= at_least) for at_least in least]
        assert [cell.value for cell in cells[1:5]] == pytest.approx(expected)


def test_the_page_begins_with_how_good_the_policy_is_and_what_was_lost():
    rows = asked()
    for lost in rows[:3]:
        lost["outcome"] = "timeout"
    rows[5]["outcome"] = None
    for cut in rows[:8]:
        cut["stop"] = "length"
    report = build(run_of_rows(rows))
    first, second = report.opening.text.split("\n\n")
    everything = values(table(report, "opening-scores"))["all"]
    assert first.startswith(f"pass@1 is {100 * everything['pass@1']:.1f} % (95 % CI ")
    assert first.endswith("over 16 problems with 4 samples of each.")
    assert second == "6.2 % of the 64 responses could not be verified and are excluded; 12.5 % were truncated."
    assert report.opening.title == "How good the policy is"
    page = render(report).partition("<main")[2]
    assert 0 < page.index("How good the policy is") < page.index("Findings")


def test_what_is_not_known_is_said_and_not_guessed():
    unknown = build(run_of_rows([r | {"stop": None} for r in asked()]))
    assert unknown.opening.text.endswith("All 64 responses were verified; truncation is unknown.")
    unverified = build(run_of_rows([r | {"outcome": None} for r in asked()]))
    assert unverified.opening.text == (
        "No response has a verdict, so pass@k is unknown.\n\n100.0 % of the 64 responses could not be verified and are "
        "excluded; none was truncated."
    )
    greedy = build(run_of_rows([r | {"split": "greedy"} for r in asked(n=1)]))
    assert greedy.opening.text.startswith("Greedy decoding solves 68.8 % (95 % CI ")
    assert "reliability" not in {t.id for section in greedy.sections for t in section.tables}
    assert build(run_of_rows([])).opening.title == "Exploration"


def test_many_levels_stay_in_their_chapter():
    counts = {(name, str(level)): [1, 2] for name in ("alpha", "beta") for level in range(9)}
    report = build(run_of_rows(asked(counts)))
    block = table(report, "opening-scores")
    assert [cells[0] for cells in block.rows] == ["alpha", "beta", "all"]
    assert "18 more rows are in the table of the chapter The evaluation." in block.note
    assert len(table(report, "evaluated").rows) == 21


# several models

BETTER = {place: [min(4, c + 1) for c in of] for place, of in COUNTS.items()}


@pytest.fixture(scope="module")
def models() -> Report:
    rows = [*asked(model="org/base"), *asked(BETTER, model="org/rl"), *asked(COUNTS, model="<b>`x")]
    return build(run_of_rows(rows))


def test_models_of_one_dump_are_ranked_and_paired_and_never_mixed(models):
    found = values(table(models, "opening-models"))
    assert list(found) == ["org/rl", "<b>`x", "org/base"]
    before, after = ([c for of in counts.values() for c in of] for counts in (COUNTS, BETTER))
    assert found["org/base"]["pass@1"] == pytest.approx(np.mean(before) / 4)
    assert found["org/rl"]["pass@1"] == pytest.approx(np.mean(after) / 4)
    assert {one["problems"] for one in found.values()} == {16}
    paired = values(table(models, "opening-differences"))
    won = sum(a > b for a, b in zip(after, before, strict=True))
    assert paired["org/base"]["difference"] == pytest.approx(-won / 4 / 16)
    assert (paired["org/base"]["won"], paired["org/base"]["lost"], paired["org/base"]["tied"]) == (0, won, 16 - won)
    assert (models.facts["models"], models.facts["problems"]) == (3, 16)
    text = models.opening.text
    assert text.startswith(f"Of 3 models, `org/rl` is best: pass@1 is {100 * np.mean(after) / 4:.1f} % (95 % CI ")
    assert f"`org/rl` is {100 * won / 64:.1f} percentage points better than `<b>`x` at pass@1" in text


def test_models_are_set_beside_each_other_by_test_set_and_level(models):
    found = values(table(models, "opening-parts"))
    assert list(found) == ["alpha", "beta", "alpha/1", "alpha/2"]
    assert found["alpha/2"]["org/rl"] == pytest.approx(np.mean(BETTER["alpha", "2"]) / 4)
    assert found["alpha/2"]["org/base"] == pytest.approx(np.mean(COUNTS["alpha", "2"]) / 4)
    rows = table(models, "evaluated").rows
    assert [cells[:3] for cells in rows[:5]] == [
        ["<b>`x", "alpha", None],
        ["<b>`x", "beta", None],
        ["<b>`x", None, "alpha/1"],
        ["<b>`x", None, "alpha/2"],
        ["<b>`x", "all", None],
    ]


def test_the_names_of_models_are_escaped(models):
    page = render(models)
    assert "&lt;b&gt;" in page
    assert "<b>`x" not in page.split('id="plots"')[0]


# the command


def test_an_inspect_log_of_two_models_and_tasks_is_one_page_and_one_comparison(tmp_path, capsys):
    for model, more in (("m/one", 0), ("m/two", 3)):
        for task in ("sums", "products"):
            samples = [(i, m, "C" if m <= i % 3 + more else "I") for i in range(12) for m in range(1, 7)]
            samples = [dumps.inspect_sample(i, m, {"match": score}) for i, m, score in samples]
            dumps.inspect_eval(tmp_path / f"{model[2:]}-{task}.eval", samples, model=model, task=task)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "there")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Of 2 models, m/two is best: pass@1 is 66.7 %" in printed
    assert "m/two is 50.0 percentage points better than m/one at pass@1" in printed
    assert main(["compare", str(tmp_path), "--out", str(tmp_path / "there")]) == 0
    told = json.loads((tmp_path / "there" / "compare.json").read_text())
    assert told["title"] == "Comparison of m/one and m/two"
    [decided] = next(t for t in told["opening"]["tables"] if t["id"] == "opening-decision")["rows"]
    assert decided[0] == "m/two"
    assert decided[2:5] == [24, 0, 0]


def test_an_evaluation_of_a_suite_keeps_its_sets_and_their_levels(tmp_path, capsys):
    """Scored, since no model is needed for that; what `evaluate --out` writes comes by the same counts."""
    folder = tmp_path / "sets"
    folder.mkdir()
    dumps.lines(folder / "one.jsonl", [{"q": f"a{i}?", "answer": str(i), "hard": "12"[i % 2]} for i in range(6)])
    dumps.lines(folder / "two.jsonl", [{"q": f"b{i}?", "answer": str(i)} for i in range(4)])
    (folder / "suite.yaml").write_text(
        "table: {prompt: '{q}', answer: answer, verifier: number}\n"
        "sets:\n  one: {data: one.jsonl, table: {level: hard}}\n  two: {data: two.jsonl}\n"
    )
    said = [
        {"question": f"{s}{i}?", "response": str(i if m < 1 + i % 2 else 99)}
        for s, n in (("a", 6), ("b", 4))
        for i in range(n)
        for m in range(2)
    ]
    generations = dumps.lines(tmp_path / "gen.jsonl", said)
    ask = ["score", str(generations), "--suite", str(folder / "suite.yaml"), "--data", str(folder)]
    out = tmp_path / "scored"
    assert main([*ask, "--column", "prompt=question", "--column", "text=response", "--out", str(out)]) == 0
    printed = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert [line for line in printed if line[0] in ("one", "two", "one/1", "one/2", "all")] == [
        ["one", "6"],
        ["two", "4"],
        ["one/1", "3"],
        ["one/2", "3"],
        ["all", "10"],
    ]
    assert main(["report", str(out)]) == 0
    told = json.loads((Path(out) / "report.json").read_text())
    block = next(t for t in told["opening"]["tables"] if t["id"] == "opening-scores")
    assert [(cells[0], cells[1], cells[2]["value"]) for cells in block["rows"]] == [
        ("one", 6, 0.75),
        ("two", 4, 0.75),
        ("one/1", 3, 0.5),
        ("one/2", 3, 1.0),
        ("all", 10, 0.75),
    ]
