"""What a table, a tokenizer and a configuration decide is said before weights are loaded, alike by three commands."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outrider import load_run
from outrider.cli import main
from outrider.config import load_recipe
from outrider.config.evaluate import EvaluateOptions
from outrider.model.options import PolicyOptions
from outrider.preflight.check import Wanted, preflight

GOOD = [{"problem": f"{i}+{j}", "answer": str(i + j), "level": "a"} for i in range(4) for j in range(3)]
HELD = [{"problem": f"{i}*{j}", "answer": str(i * j), "level": "a"} for i in range(2, 5) for j in range(2, 4)]


class Bad(NamedTuple):
    """What is wrong, and what every command says of it."""

    says: str
    train: Any = GOOD
    held: Any = HELD
    table: Mapping[str, Any] = MappingProxyType({})
    more: tuple[str, ...] = ()


def with_row(rows: list[dict[str, Any]], at: int, **changed: Any) -> list[dict[str, Any]]:
    """A copy with one row changed; None takes a field away."""
    row = {key: value for key, value in {**rows[at], **changed}.items() if value is not ...}
    return [*rows[:at], row, *rows[at + 1 :]]


def written(text: str | bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "raw.jsonl"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def csv(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text("problem,result\n1+1,2\n1+2,3\n")
    return path


def parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"question": ["1+1"], "answer": ["2"]}), folder / "rows.parquet")
    return folder / "rows.parquet"


def cut_gz(folder: Path) -> Path:
    path = folder / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, GOOD)).encode())[:-9])
    return path


LINES = [json.dumps(row) for row in GOOD]
LONG = "1+" * 200
BAD = {
    "no answer field": Bad("line 3: no field 'answer'", with_row(GOOD, 2, answer=...)),
    "answer null": Bad("line 3: .*answer", with_row(GOOD, 2, answer=None)),
    "answer empty": Bad("line 3: .*answer", with_row(GOOD, 2, answer="")),
    "answer no number": Bad("line 3: .*not a number", with_row(GOOD, 2, answer="three")),
    "answer an object": Bad("line 3: .*answer", with_row(GOOD, 2, answer={"value": 3})),
    "held-out answer no number": Bad("line 2: .*not a number", held=with_row(HELD, 1, answer="?")),
    "no prompt field": Bad("line 5: no field 'problem'", with_row(GOOD, 4, problem=...)),
    "prompt empty": Bad("line 5: .*problem", with_row(GOOD, 4, problem="  ")),
    "prompt a list": Bad("line 5: .*problem", with_row(GOOD, 4, problem=["1+1"])),
    "held-out prompt empty": Bad("line 1: .*problem", held=with_row(HELD, 0, problem="")),
    "broken JSON": Bad("line 2", written("\n".join([LINES[0], LINES[1][:-3], LINES[2]]))),
    "row no object": Bad("line 2", written("\n".join([LINES[0], "[1, 2]"]))),
    "empty file": Bad("raw.jsonl: holds no problems", written("")),
    "blank lines": Bad("raw.jsonl: holds no problems", written("\n\n\n")),
    "not UTF-8": Bad("line 2", written(LINES[0].encode() + b'\n{"problem": "\xff\xfe", "answer": "1"}\n')),
    "a pointer of Git LFS": Bad(
        "raw.jsonl: a Git LFS pointer", written("version https://git-lfs.github.com/spec/v1\nsize 12\n")
    ),
    "gzip truncated": Bad("rows.jsonl.gz", cut_gz),
    "no such file": Bad("gone.jsonl: no such file", lambda folder: folder / "gone.jsonl"),
    "no table": Bad("raw.txt: not a table", lambda folder: folder / "raw.txt"),
    "CSV without the column": Bad("line 2: no field 'answer'", csv),
    "Parquet without the column": Bad("no field 'problem'", parquet),
    "the same row twice": Bad("line 13: the same prompt as .*line 4", [*GOOD, GOOD[3]]),
    "one question, two answers": Bad("line 13: the same prompt as .*line 1", [*GOOD, {**GOOD[0], "answer": "999"}]),
    "held-out row twice": Bad("line 7: the same prompt as .*line 1", held=[*HELD, HELD[0]]),
    "id twice": Bad(
        "line 4: the same n '2'",
        [{**row, "n": min(i, 2)} for i, row in enumerate(GOOD)],
        [{**row, "n": i} for i, row in enumerate(HELD)],
        {"id": "n"},
    ),
    "no id field": Bad("no field 'n'", table={"id": "n"}),
    "all held out": Bad("every problem is also held out", HELD),
    "all held out, spaced otherwise": Bad(
        "every problem is also held out", [{**row, "problem": row["problem"].replace("*", " * ")} for row in HELD]
    ),
    "no such level": Bad("no problem is of the levels b", table={"level": "level", "levels": ["b"]}),
    "held out without a level": Bad("no field 'level'", held=with_row(HELD, 0, level=...), table={"level": "level"}),
    "fewer problems than a step": Bad("a step needs 32 different problems.*12", more=("train.problems=32",)),
    "fewer of the level than a step": Bad(
        "a step needs 4 different problems.*1 ", with_row(GOOD, 0, level="b"), table={"level": "level", "levels": ["b"]}
    ),
    "fewer than a step once those held out are excluded": Bad(
        "a step needs 4 different problems.*2 ", [*GOOD[:2], *HELD]
    ),
    "a prompt beyond the context": Bad(
        "line 7: .*402 tokens fills the model's context of 256", with_row(GOOD, 6, problem=LONG)
    ),
    "a held-out prompt beyond the context": Bad(
        "line 2: .*fills the model's context", held=with_row(HELD, 1, problem=LONG)
    ),
    "a character without a token": Bad("line 7: .*no token for 'x'", with_row(GOOD, 6, problem="x+1")),
    "a held-out character without a token": Bad("line 2: .*no token for", held=with_row(HELD, 1, problem="2\u00d73")),
    "no solution anywhere": Bad("no row has a solution in the field 'steps'", table={"solution": "steps"}),
    "every row skipped": Bad("every row is skipped", [{**row, "answer": ""} for row in GOOD], table={"skip": "empty"}),
    "messages without a template": Bad("policy.chat=true", table={"messages": "messages", "prompt": "{problem}\n"}),
    "a template that the model lacks": Bad("no chat template", more=("policy.chat=true",)),
    "evaluate beyond the held-out problems": Bad(
        "holds out no problems beyond the first 50", more=("evaluate.skip=50",)
    ),
    "a field that no row has": Bad("no field 'question'", table={"prompt": "{question}="}),
    "a nested answer that is missing": Bad("no field 'answer.value'", table={"answer": "answer.value"}),
    "an answer that math cannot read": Bad(
        "line 3: .*beyond what is compared",
        with_row(GOOD, 2, answer="(" * 60 + "1" + ")" * 60),
        table={"verifier": "math"},
    ),
}


def recipe(folder: Path, bad: Bad) -> str:
    places = {}
    for name, rows in (("train", bad.train), ("held", bad.held)):
        if callable(rows):
            places[name] = str(rows(folder))
        else:
            places[name] = str(folder / f"{name}.jsonl")
            Path(places[name]).write_text("\n".join(map(json.dumps, rows)))
    table = {"train_data": places["train"], "heldout_data": places["held"], "prompt": "{problem}=", **bad.table}
    path = folder / "recipe.yaml"
    train = {"problems": 4, "steps": 1, "tokens": None, "ranks": 1, "trackers": []}
    path.write_text(json.dumps({"extends": "grpo", "task": {"table": table}, "train": train}))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main([*words])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


@pytest.fixture
def _no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_policy(*_: object) -> None:
        raise AssertionError("weights are loaded")

    monkeypatch.setattr("outrider.train.engines.load_policy", load_policy)


@pytest.mark.usefixtures("_no_weights")
@pytest.mark.parametrize("name", BAD)
def test_validate_dry_run_and_train_refuse_the_same_table(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = BAD[name]
    file = recipe(tmp_path, bad)
    out = tmp_path / "run"
    results = {
        "dry run": said(capsys, "train", file, *bad.more, "--dry-run"),
        "train": said(capsys, "train", file, *bad.more, "--out", str(out)),
        "validate": said(capsys, "validate", *recipe_of(file, bad, tmp_path)),
    }
    assert {command: status for command, (status, _) in results.items()} in (
        {"dry run": 2, "train": 2, "validate": 3},
        {"dry run": 2, "train": 2, "validate": 2},
    )
    for command, (_, text) in results.items():
        assert re.search(bad.says, text), (command, text)
    assert not out.exists(), "nothing is begun"


def recipe_of(file: str, bad: Bad, folder: Path) -> list[str]:
    """Overrides of a recipe are not those of a validation, so they go into the file."""
    if not bad.more:
        return [file]
    data = json.loads(Path(file).read_text())
    for override in bad.more:
        key, _, value = override.partition("=")
        section, name = key.split(".")
        data.setdefault(section, {})[name] = json.loads(value)
    changed = folder / "changed.yaml"
    changed.write_text(json.dumps(data))
    return [str(changed)]


@pytest.mark.usefixtures("_no_weights")
def test_a_table_that_all_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recipe(tmp_path, Bad(""))
    monkeypatch.setattr("outrider.commands.time_probe.time_line", lambda *_: "")  # which loads the weights
    assert said(capsys, "train", file, "--dry-run")[0] == 0
    assert said(capsys, "validate", file)[0] == 0
    with pytest.raises(AssertionError, match="weights are loaded"):
        main(["train", file, "--out", str(tmp_path / "run")])


def test_there_are_forty_of_them() -> None:
    assert len(BAD) >= 40


LONG_ROWS = Bad("", with_row(GOOD, 6, problem=LONG), with_row(HELD, 1, problem=LONG + "2"), {"skip": "long"})


def test_rows_that_are_too_long_are_excluded_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recipe(tmp_path, LONG_ROWS)
    monkeypatch.setattr("outrider.commands.time_probe.time_line", lambda *_: "")
    assert said(capsys, "train", file, "--dry-run")[0] == 0
    assert said(capsys, "validate", file)[0] == 0
    status, text = said(capsys, "train", file, "train.steps=2", "train.ranks=2", "--out", str(tmp_path / "run"))
    assert status == 0, text
    counts = f"{len(GOOD) - 1} train, {len(HELD) - 1} heldout, 0 excluded, 1 too long in train, 1 too long in heldout"
    assert counts in (tmp_path / "run/notices.txt").read_text()
    rollouts = load_run(tmp_path / "run").rollouts()
    assert len(rollouts) == 2 * 4 * 8
    assert rollouts.prompt_ids.str.len().max() < 10


def test_a_row_that_leaves_less_than_a_response_is_too_long(tmp_path: Path) -> None:
    """The bound is sample.max_tokens, on both sides of it; a character is a token, and there are two more."""
    for letters, excluded in ((256 - 96 - 2, 0), (256 - 96 - 1, 1)):
        rows = with_row(GOOD, 0, problem=("1+" * 128)[:letters])
        folder = tmp_path / str(letters)
        folder.mkdir()
        task = load_recipe(recipe(folder, Bad("", rows, HELD, {"skip": ["empty", "long"]}))).task
        found = preflight(task, Wanted(4, EvaluateOptions(problems=4), 96), "base:countdown", PolicyOptions())
        assert found.refused == []
        assert task.counts["too_long_in_train"] == excluded == len(found.long)
        assert task.counts["train"] == len(GOOD) - excluded


def test_a_table_of_long_rows_alone_is_refused(tmp_path: Path) -> None:
    rows = [{**row, "problem": LONG + str(i)} for i, row in enumerate(GOOD)]
    task = load_recipe(recipe(tmp_path, Bad("", rows, HELD, {"skip": "long"}))).task
    found = preflight(task, Wanted(4, None, 96), "base:countdown", PolicyOptions())
    assert len(found.refused) == 1
    assert "train.jsonl: every prompt is too long for the model" in found.refused[0]


def test_a_place_is_excluded_of_its_own_side_alone(tmp_path: Path) -> None:
    """Two splits of one source number their rows alike."""
    task = load_recipe(recipe(tmp_path, Bad("", GOOD, HELD, {"skip": "long"}))).task
    place = task.train(0).metadata["place"]
    task.leave_out([("heldout", place)])
    assert task.counts["train"] == len(GOOD)
    task.leave_out([("train", place)])
    assert task.counts["train"] == len(GOOD) - 1
