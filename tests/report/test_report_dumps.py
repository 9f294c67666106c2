"""``outrider report`` on what other frameworks wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plain_rows import row, run_of_rows

import dumps
from outrider.cli import main
from outrider.report.kind import is_evaluation


def told(folder: Path) -> dict[str, object]:
    return json.loads((folder / "report.json").read_text())


def test_dumps_of_other_frameworks_are_reported(tmp_path, capsys):
    run = tmp_path / "verl-run"
    for step in range(1, 4):
        rows = [dumps.verl(step, f"p{i}", f"answer {m}", float(m == i), acc=m == i) for i in range(3) for m in range(4)]
        dumps.lines(run / f"{step}.jsonl", rows)
    assert main(["report", str(run)]) == 0
    printed = capsys.readouterr()
    assert "was read as rollouts of the format 'verl'" in printed.err
    facts = told(run)["facts"]
    assert (facts["rollouts"], facts["steps"], facts["problems"]) == (36, 3, 3)
    page = (run / "report.html").read_text()
    assert "Report of verl-run" in page
    assert "Solved, mixed, unsolved" in page


def test_fields_of_an_unknown_dump_are_named_by_the_user(tmp_path, capsys):
    file = dumps.lines(tmp_path / "mine.jsonl", [{"q": f"p{i % 5}", "points": i % 3} for i in range(40)])
    assert main(["report", str(file)]) == 2
    assert "points, q" in capsys.readouterr().err
    assert main(["report", str(file), "--column", "problem=q", "--column", "success=points >= 2"]) == 0
    printed = capsys.readouterr()
    assert "Success is points >= 2.0, as asked." in printed.err
    assert told(tmp_path)["facts"]["problems"] == 5
    assert "duplicates" in told(tmp_path)["skipped"]  # no field is the text: nothing is known of repeats


TRAINING = ("train", "recipe", "reward", "credit", "baseline", "learn", "aggregate", "clip-higher", "novelty")


def test_a_dump_of_evaluations_is_reported_as_one(tmp_path, capsys):
    """Truncated, repeated, verified both ways: four checks find something, and no advice is for a training."""
    rows = [
        {"q": f"p{p}", "a": "answer", "ok": m < p % 9, "why": "length" if m < 6 else "stop", "lv": f"L{p % 2}"}
        for p in range(40)
        for m in range(8)
    ]
    columns = [f"--column={c}" for c in ("problem=q", "text=a", "success=ok", "stop=why", "level=lv")]
    assert main(["report", str(dumps.lines(tmp_path / "gen.jsonl", rows)), *columns]) == 0
    report, printed = told(tmp_path), capsys.readouterr().out
    assert report["title"] == "Evaluation of gen"
    assert "steps" not in report["facts"]
    advice = [line for finding in report["findings"] for line in finding["advice"]]
    assert {finding["name"] for finding in report["findings"]} == {"truncation", "verifier suspicion", "duplicates"}
    assert not [line for line in advice if any(word in line for word in TRAINING)]
    assert advice
    assert "dead prompts" in report["checked"]
    unlooked = next(line for line in printed.splitlines() if "entropy collapse" in line)  # what they lack is said once
    assert "saturation" in unlooked, printed
    sections = {section["id"]: section for section in report["sections"]}
    assert not sections.keys() & {"budget", "groups", "credit", "frontier", "sampler"}
    table = sections["evaluated"]["tables"][0]
    assert [row[0] for row in table["rows"]] == ["L0", "L1", "all"]
    at = table["columns"].index("pass@1")
    assert table["rows"][2][at]["value"] == pytest.approx(sum(min(p % 9, 8) for p in range(40)) / 320)
    assert not [f["id"] for s in report["sections"] for f in s["figures"] if f["x"] == "step"]
    assert "training" not in " ".join([section["text"] for section in report["sections"]]).lower()


def test_an_evaluation_that_tells_no_samples_apart_is_given_no_recipe(tmp_path, capsys):
    rows = [{"q": f"p{p}", "ok": p < 4} for p in range(40) for _ in range(8)]
    file = dumps.lines(tmp_path / "gen.jsonl", rows)
    assert main(["report", str(file), "--column=problem=q", "--column=success=ok"]) == 0
    [finding] = told(tmp_path)["findings"]
    assert finding["name"] == "dead prompts"
    assert "of the 40 groups have no signal" in finding["sentence"]
    assert not [line for line in finding["advice"] if any(word in line for word in TRAINING)]


def test_a_training_that_has_only_evaluated_so_far_is_none(tmp_path):
    run = run_of_rows([row(split="evaluate", step=0)], config={"explore": [{"uniform": {"n": 8}}]})
    assert not is_evaluation(run)
    assert is_evaluation(run_of_rows([row(split="evaluate", step=0)]))
    assert not is_evaluation(run_of_rows([row(split="evaluate", step=0), row()]))
    assert not is_evaluation(run_of_rows([]))


def test_evaluations_of_a_dump_are_its_frontier_and_its_coverage(tmp_path):
    """verl's validation of two steps: pass@1 rises on half of the problems, and the other half is lost."""
    for step, solved in ((0, lambda p, m: m == 0), (10, lambda p, m: p % 2 == 0)):
        rows = [
            dumps.verl(step, f"p{p}", f"{p} {m}", 1.0, acc=solved(p, m), reward=1.0)
            for p in range(60)
            for m in range(8)
        ]
        dumps.lines(tmp_path / "val" / f"{step}.jsonl", rows)
    assert main(["report", str(tmp_path / "val")]) == 0
    report = told(tmp_path / "val")
    [finding] = [f for f in report["findings"] if f["name"] == "coverage narrowing"]
    assert [line.partition(" ")[0] for line in finding["advice"]] == ["Use"]
    [frontier] = [section for section in report["sections"] if section["id"] == "frontier"]
    assert {f["id"] for f in frontier["figures"]} == {"frontier-plane", "frontier-along", "frontier-curves"}


def test_an_evaluation_by_greedy_decoding_alone_has_its_table(tmp_path):
    records = [dumps.lm_eval(i, [f"r{i}"], {"exact_match": float(i % 2)}) | {"doc_hash": f"h{i}"} for i in range(30)]
    assert main(["report", str(dumps.lines(tmp_path / "samples_x.jsonl", records))]) == 0
    [section] = [s for s in told(tmp_path)["sections"] if s["id"] == "evaluated"]
    table = section["tables"][0]
    assert dict(zip(table["columns"], table["rows"][-1], strict=True))["greedy"]["value"] == 0.5


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("problem", "--column problem: name a column and a field"),
        ("problm=q", "unknown column 'problm' of a rollout"),
        ("problem=qq", "no record has a field 'qq'"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, capsys, column, sentence):
    file = dumps.lines(tmp_path / "mine.jsonl", [{"q": "p", "ok": True}])
    assert main(["report", str(file), "--column", "success=ok", "--column", column]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_columns_of_a_run_are_not_renamed(tmp_path, capsys):
    (tmp_path / "rollouts").mkdir()
    assert main(["report", str(tmp_path), "--column", "problem=q"]) == 2
    assert "is not a dump of another framework" in capsys.readouterr().err


def test_what_the_verifier_could_not_verifier_is_no_failure_of_a_problem(tmp_path):
    """Four timeouts were four failures, which left a pass rate of at most 0.53."""
    outcomes = {"a": ["timeout"] * 4, "b": [False, False, "timeout", "error"], "c": [None] * 4, "d": [True] * 4}
    rows = [{"q": q, "ok": ok} for q, of in outcomes.items() for ok in of]
    file = dumps.lines(tmp_path / "gen.jsonl", rows)
    assert main(["report", str(file), "--column=problem=q", "--column=success=ok"]) == 0
    [section] = [s for s in told(tmp_path)["sections"] if s["id"] == "evaluated"]
    tables = {table["id"]: table for table in section["tables"]}
    assert [(row[0]["problem"], row[3], row[5]) for row in tables["groups-dead"]["rows"]] == [
        ("b", 2, pytest.approx(1 - 0.05**0.5))
    ]
    table = tables["evaluated"]
    row = dict(zip(table["columns"], table["rows"][-1], strict=True))
    assert (row["problems"], row["responses"], row["not verified"], row["pass@1"]["value"]) == (4, 16, 10, 0.5)
    assert "2 problems have no verified response" in table["note"]


def test_a_folder_called_rollouts_may_be_another_frameworks(tmp_path, capsys):
    """verl's rollout_data_dir is often called so; a run of Outrider has Parquet files there, or nothing yet."""
    run = tmp_path / "verl-run"
    dumps.lines(
        run / "rollouts/1.jsonl", [dumps.verl(1, f"p{p}", f"{m}", 1.0, acc=True) for p in "ab" for m in range(2)]
    )
    assert main(["report", str(run)]) == 0
    assert "was read as rollouts of the format 'verl'" in capsys.readouterr().err
