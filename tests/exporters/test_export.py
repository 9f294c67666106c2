"""Rollouts that are exported come back: by Outrider's importer, by Inspect, from trackio, from Parquet."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_rows import random_rows, row, table

import dumps
import runs
from outrider.api.run import load_run
from outrider.cli import main
from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.exporters.export_command import exported
from outrider.exporters.source import ExportChoice
from outrider.importers import detect, read
from outrider.importers.plain import PLAIN
from outrider.model.places import local_tokenizer, model_folder
from outrider.record import Context, Observation, Outcome, Problem, Rollout, StopReason, Verdict
from outrider.report.opened import open_any
from outrider.runs.folder import RunFolder

OLD = Path(__file__).parents[1] / "run_of_0_2"  # 24 rollouts with texts, of the shipped base


def export(path: Path, to: str, out: Path | None, choice: ExportChoice | None = None) -> tuple[list[Path], list[str]]:
    paths, notices = exported(path, to, local_tokenizer, out, choice)  # type: ignore[arg-type]
    return paths, notices


def plain_file(folder: Path, rows: list[dict], name: str = "rows") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def rollouts_of(path: Path) -> pa.Table:
    """The plain table at a path, as the report has it, in an order of its own."""
    run = open_any(path)
    columns = ", ".join(PLAIN.names)
    found = run.db.execute(f"SELECT {columns} FROM rollouts ORDER BY split, step, group_id, member").fetchall()
    return [tuple("nan" if value != value else value for value in one) for one in found]


def rollout(member: int, outcome: Outcome | None, **changes: object) -> Rollout:
    made = replace(runs.rollout(1), member=member, text=f"so {member}", **changes)
    if outcome is None:
        return made
    score = math.nan if outcome in (Outcome.TIMEOUT, Outcome.ERROR) else float(outcome is Outcome.CORRECT)
    return replace(made, verdict=Verdict(outcome, score, answer=str(member), detail=f"why {member}"), reward=score)


# the plain table


def test_parquet_has_every_column_of_every_rollout_as_it_was(tmp_path: Path) -> None:
    source = plain_file(tmp_path, random_rows(3))
    paths, notices = export(source, "parquet", tmp_path / "out")
    assert pq.read_schema(paths[0]).equals(PLAIN)
    assert rollouts_of(paths[0]) == rollouts_of(source)
    assert len(rollouts_of(source)) > 80
    assert notices == []


def test_the_parquet_of_a_run_is_its_rollouts_with_their_prompts(tmp_path: Path) -> None:
    paths, _ = export(OLD, "parquet", tmp_path)
    there, own = rollouts_of(paths[0]), rollouts_of(OLD)
    prompt = PLAIN.names.index("prompt")
    assert [one[:prompt] + one[prompt + 1 :] for one in there] == [one[:prompt] + one[prompt + 1 :] for one in own]
    ids = {(r.group_id, r.member): r.prompt_ids for name in ("train", "evaluate") for r in all_rollouts(OLD, name)}
    assert ids
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(model_folder("base:countdown") + "/tokenizer.json")
    for one in pq.read_table(paths[0]).to_pylist():
        if (one["group_id"], one["member"]) in ids:
            tokens = ids[one["group_id"], one["member"]].tolist()
            assert one["prompt"] == tokenizer.decode(tokens, skip_special_tokens=False)


def all_rollouts(run: Path, name: str) -> list[Rollout]:
    store = RunFolder(run).rollouts
    return [rollout for step in store.steps(name) for rollout in store.read(step, name)]


def test_a_dump_of_another_framework_is_exported_as_it_was_read(tmp_path: Path) -> None:
    source = dumps.trl(tmp_path / "trl", 1, {"reward": [1.0, 0.0]}, prompt=["p", "p"], completion=["a", "b"])
    paths, notices = export(source, "parquet", tmp_path / "out")
    assert rollouts_of(paths[0]) == rollouts_of(source)
    assert any("was read as rollouts of the format 'trl'" in notice for notice in notices)
    assert detect(paths[0]) is None, "the plain form is no dump"


def test_a_replayed_rollout_is_excluded_as_reports_leave_it_out(tmp_path: Path) -> None:
    folder = runs.run_of(tmp_path / "run", 0)
    again = replace(rollout(1, Outcome.CORRECT), context=Context("replayed", ("train:0:p/0",)))
    folder.rollouts.write(1, [rollout(0, Outcome.CORRECT), again])
    paths, _ = export(tmp_path / "run", "parquet", None)
    assert pq.read_table(paths[0])["member"].to_pylist() == [0]
    assert paths == [tmp_path / "run" / "export" / "parquet" / "rollouts.parquet"]


# Inspect


def inspect_rows(folder: Path) -> dict[tuple[str, str], dict]:
    """Rollouts of exported logs, read by the importer of Inspect, by problem and text."""
    found = read(folder, "inspect").rollouts.to_pylist()
    return {(one["problem_id"], one["text"]): one for one in found}


def test_an_inspect_log_comes_back_by_the_importer(tmp_path: Path) -> None:
    verdicts = [*Outcome, None]
    rows = [
        row(split="evaluate", step=0, problem_id="a/1", member=k, text=f"text {k}", outcome=outcome, tokens=k + 1)
        | {"answer": f"{k}", "detail": "why", "stop": stop, "reward": math.nan, "level": "3"}
        for k, (outcome, stop) in enumerate(zip(verdicts, [*StopReason][:6], strict=True))
    ]
    [path], _ = export(plain_file(tmp_path, rows, "sums"), "inspect", tmp_path / "out")
    assert path.name == "evaluate-00000000.eval"
    assert detect(path) == "inspect"
    there = inspect_rows(path)
    outcomes = ["correct", "incorrect", "unparseable", "error", "error", None]  # Inspect has one word for the two
    stops = ["stop", "stop", "length", "context", "stop", None]
    for k, (outcome, stop) in enumerate(zip(outcomes, stops, strict=True)):
        one = there["sums/a/1", f"text {k}"]
        assert (one["outcome"], one["stop"], one["tokens"], one["prompt"]) == (outcome, stop, k + 1, "what?")
        assert one["answer"] == (None if outcome is None else str(k))
        assert (one["member"], one["turns"]) == (k, 1)


def test_each_split_and_step_has_a_log_and_each_rollout_is_an_epoch_of_its_problem(tmp_path: Path) -> None:
    rows = random_rows(1, steps=2)
    rows += [row(split="evaluate", step=2, problem_id=p, member=k) for p in "xy" for k in range(3)]
    paths, _ = export(plain_file(tmp_path, rows), "inspect", tmp_path / "out")
    assert [path.stem for path in paths] == ["evaluate-00000002", "train-00000001", "train-00000002"]
    for path in paths:
        split, step = path.stem.split("-")
        wanted = sorted(
            (one["problem_id"], one["member"] + 1) for one in rows if (one["split"], one["step"]) == (split, int(step))
        )
        with zipfile.ZipFile(path) as archive:
            samples = [json.loads(archive.read(n)) for n in archive.namelist() if n.startswith("samples/")]
            header = json.loads(archive.read("header.json"))
            summaries = json.loads(archive.read("summaries.json"))
        assert sorted((one["id"], one["epoch"]) for one in samples) == wanted
        assert [one["uuid"] for one in summaries] == [one["uuid"] for one in samples]
        assert header["eval"]["metadata"] == {"run": "rows", "split": split, "step": int(step)}
        assert header["results"]["total_samples"] == len(samples)


def test_accuracy_is_pass_at_1_over_problems_and_leaves_out_what_no_verifier_scored(tmp_path: Path) -> None:
    outcomes = {"a": ["correct", "incorrect", "unparseable", "timeout"], "b": ["correct", None], "c": ["error"]}
    rows = [
        row(problem_id=problem, member=k, outcome=outcome)
        for problem, words in outcomes.items()
        for k, outcome in enumerate(words)
    ]
    [path], notices = export(plain_file(tmp_path, rows), "inspect", tmp_path / "out")
    with zipfile.ZipFile(path) as archive:
        [score] = json.loads(archive.read("header.json"))["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == pytest.approx((1 / 3 + 1) / 2)
    assert (score["scored_samples"], score["unscored_samples"]) == (4, 3)
    assert "1 sample has no verdict." in notices


def test_what_cannot_be_exported_is_counted(tmp_path: Path) -> None:
    rows = [row(text=None), row(member=1, prompt=None), row(member=2, parent="train:1:p/1", branch_at=3)]
    [path], notices = export(plain_file(tmp_path, rows), "inspect", tmp_path / "out")
    assert notices == [
        "1 rollout without a text was skipped.",
        "1 sample has no prompt.",
        "2 samples have no gold answer.",
        "1 sample continues another rollout, whose text before it is not on record.",
    ]
    assert len(inspect_rows(path)) == 1, "two with one text"


def run_of_a_shipped_task(path: Path, *overrides: str) -> list[Problem]:
    """A run with one rollout of an evaluation for each held-out problem, and one of training."""
    recipe = load_recipe("grpo", ["evaluate.problems=5", *overrides])
    problems = recipe.task.heldout(5)
    folder = RunFolder.create(path, recipe.resolved())
    evaluated = [replace(rollout(0, Outcome.CORRECT), problem_id=p.id, group_id=f"evaluate:{p.id}") for p in problems]
    folder.rollouts.write(0, evaluated, "evaluate")
    folder.rollouts.write(1, [rollout(0, Outcome.CORRECT)])
    folder.close()
    return problems


def test_gold_answers_of_a_run_are_the_targets_of_its_evaluations(tmp_path: Path) -> None:
    problems = run_of_a_shipped_task(tmp_path / "run")
    (evaluation, _), notices = export(tmp_path / "run", "inspect", None)
    with zipfile.ZipFile(evaluation) as archive:
        samples = {p.id: json.loads(archive.read(f"samples/{p.id}_epoch_1.json")) for p in problems}
        header = json.loads(archive.read("header.json"))["eval"]
    assert len(samples) == 5
    for problem in problems:
        assert json.loads(samples[problem.id]["target"]) == problem.answer
    assert (header["task"], header["model"]) == ("countdown", "base:countdown")
    assert notices == ["1 sample has no gold answer."]


def test_an_export_runs_no_code_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of_a_shipped_task(tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    (tmp_path / "mine.py").write_text("raise SystemExit('run')\n")
    monkeypatch.chdir(tmp_path)
    config.write_text(config.read_text().replace("- uniform:", "- mine.py:Stage:"))
    _, notices = export(tmp_path / "run", "inspect", None)
    assert notices[0] == (
        "Gold answers were skipped: an export runs no code of a run, and this one has some (mine.py:Stage)."
    )


def test_turns_and_observations_are_messages_and_a_branch_begins_with_its_prefix(tmp_path: Path) -> None:
    folder = runs.run_of(tmp_path / "run", 0)
    ids = np.arange(6, dtype=np.int32)
    turns = {
        "token_ids": ids,
        "logprobs_T": np.zeros(6, np.float32),
        "trainable_T": np.array([True, True, False, False, True, True]),
        "observations": (Observation(2, 2, 4, 9),),
    }
    played = replace(rollout(0, Outcome.CORRECT, **turns), text="look[so]\nthen")
    branch = replace(rollout(1, None), parent="train:1:p/0", prefix_ids=ids[:2], prefix_text="look")
    folder.rollouts.write(1, [played, branch])
    [path], _ = export(tmp_path / "run", "inspect", None)
    with zipfile.ZipFile(path) as archive:
        first, second = (
            [(one["role"], one["content"]) for one in json.loads(archive.read(f"samples/p_epoch_{n}.json"))["messages"]]
            for n in (1, 2)
        )
    assert first[1:] == [("assistant", "look"), ("user", "[so]\n"), ("assistant", "then")]
    assert second[1:] == [("assistant", "lookso 1")]
    assert inspect_rows(path)["run/p", "[assistant]\nlook\n\n[user]\n[so]\n\n\n[assistant]\nthen"]["turns"] == 2


def test_hostile_texts_come_back_letter_by_letter(tmp_path: Path) -> None:
    texts = ["</script>\x00\u2028", "C:\\a\n\"'", "😀" * 3, ""]
    source = plain_file(tmp_path, [row(member=k, text=text, problem_id=f"p{k}") for k, text in enumerate(texts)])
    [path], _ = export(source, "inspect", tmp_path / "out")
    assert {text for _, text in inspect_rows(path)} == {*texts[:3], ""}


def test_inspect_ai_itself_opens_the_logs(tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    source = plain_file(tmp_path, [*random_rows(5, steps=2), row(step=3, outcome="timeout", reward=math.nan)])
    paths, _ = export(source, "inspect", tmp_path / "out")
    assert len(log.list_eval_logs(str(tmp_path / "out"))) == len(paths) == 3
    letters = {"correct": "C", "incorrect": "I", "unparseable": "N"}
    own = {(one["step"], one["group_id"], one["member"]): one for one in pq.read_table(source).to_pylist()}
    seen = 0
    for path in paths:
        opened = log.read_eval_log(str(path))
        assert opened.status == "success"
        assert len(log.read_eval_log_sample_summaries(str(path))) == len(opened.samples)
        for sample in opened.samples:
            one = own[sample.metadata["step"], sample.metadata["group_id"], sample.metadata["member"]]
            assert (sample.input, sample.output.completion) == (one["prompt"], one["text"])
            assert [message.role for message in sample.messages] == ["user", "assistant"]
            assert sample.output.usage.output_tokens == one["tokens"]
            if one["outcome"] is None:
                assert not sample.scores
            elif one["outcome"] in letters:
                assert sample.scores["verdict"].value == letters[one["outcome"]]
            else:
                assert math.isnan(sample.scores["verdict"].value)
            seen += 1
    assert seen == len(own)


# trackio


def test_trackio_keeps_each_rollout_as_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    folder = tmp_path / "trackio"
    for module in ("utils", "sqlite_storage"):  # which read TRACKIO_DIR when they are imported
        monkeypatch.setattr(f"trackio.{module}.TRACKIO_DIR", folder)
    rows = [*random_rows(2, steps=2), row(text=None, problem_id="silent"), row(split="evaluate", step=2)]
    source = plain_file(tmp_path, rows)
    _, notices = export(source, "trackio", folder)
    traces = SQLiteStorage.get_traces("outrider", "rollouts of rows")
    own = {(one["split"], one["step"], one["group_id"], one["member"]): one for one in rows if one["text"]}
    assert len(traces) == len(own)
    for trace in traces:
        about = trace["metadata"]
        one = own[trace["key"], trace["step"], about["group_id"], about["member"]]
        assert [(m["role"], m["content"]) for m in trace["messages"]] == [("user", "what?"), ("assistant", one["text"])]
        assert about.get("outcome") == one["outcome"]
        assert about.get("advantage") == one["advantage"]
    assert notices == ["1 rollout without a text was skipped."]
    with pytest.raises(UserError, match="has a run 'rollouts of rows' already"):
        export(source, "trackio", folder)
    with pytest.raises(UserError, match="trackio is loaded already and uses"):
        export(source, "trackio", tmp_path / "elsewhere")


# the command


def test_the_command_says_what_it_wrote_and_never_writes_over(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    plain_file(tmp_path, [row(), row(split="evaluate")])
    words = ["export", "rows.parquet", "--to", "inspect", "--out", "logs"]
    assert main([*words, "--split", "train"]) == 0
    assert capsys.readouterr().out == "wrote 1 log into logs: inspect view --log-dir logs\n"
    before = Path("logs/train-00000001.eval").read_bytes()
    assert main(words) == 2
    assert "outrider: logs/train-00000001.eval exists already: remove what is there" in capsys.readouterr().err
    assert [path.name for path in Path("logs").iterdir()] == ["train-00000001.eval"]
    assert Path("logs/train-00000001.eval").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "inspect"], "rows.parquet is no run folder of Outrider: name a folder for the export by --out"),
        (["--to", "inspect", "--out", "o", "--split", "greedy"], "no rollouts of split greedy (there are: train)"),
        (["--to", "parquet", "--out", "o", "--step", "7"], "there are no rollouts of step 7 (there are: 1, 2)"),
        (["--to", "parquet", "--out", "o", "--project", "x"], "--project is trackio's, and parquet has none"),
        (["--to", "parquet", "--out", "rows.parquet/o"], "cannot write rollouts.parquet in rows.parquet/o: "),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(words, sentence, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    plain_file(tmp_path, [row(), row(step=2)])
    assert main(["export", "rows.parquet", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_without_trackio_its_extra_is_named(tmp_path, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UserError, match=r"pip install 'outrider\[trackio\]'"):
        export(plain_file(tmp_path, [row()]), "trackio", None)


def test_a_file_that_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = [row(member=k, text=rng.bytes(3000).hex()) for k in range(200)]
    source = plain_file(tmp_path, noise)
    with runs.small_files(100_000), pytest.raises(UserError, match="cannot write"):
        export(source, "inspect", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_file_of_a_run_is_named_and_the_others_are_exported(tmp_path: Path) -> None:
    folder = runs.run_of(tmp_path / "run", 2)
    folder.close()
    path = tmp_path / "run" / "rollouts" / "train-00000001.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    paths, notices = export(tmp_path / "run", "parquet", None)
    assert pq.read_table(paths[0])["step"].to_pylist() == [2]
    assert any("train-00000001.parquet was skipped" in notice for notice in notices)


def test_a_run_is_exported_from_python(tmp_path: Path) -> None:
    runs.run_of(tmp_path / "run", 2).close()
    paths = load_run(tmp_path / "run").export("inspect", tmp_path / "logs", step=2)
    assert paths == [tmp_path / "logs" / "train-00000002.eval"]
