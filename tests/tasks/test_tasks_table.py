"""Any table of problems as a task: epochs, held-out problems, and one sentence for everything wrong with a file."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.errors import UserError
from outrider.record import Outcome, identity_seed, uniforms
from outrider.tasks import Table
from outrider.tasks.task import counted

DATA = Path(__file__).parents[3] / "shared" / "data"


def write(path: Path, rows: list[dict], **changes: object) -> str:
    """JSON lines, gzipped where the name says so."""
    text = "".join(json.dumps({**row, **changes}) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def rows(n: int, word: str = "train") -> list[dict]:
    return [{"id": f"{word}-{i}", "problem": f"{word} {i}?", "answer": str(i), "level": i % 3} for i in range(n)]


@pytest.fixture
def files(tmp_path):
    return {
        "train_data": write(tmp_path / "train.jsonl.gz", rows(10)),
        "heldout_data": write(tmp_path / "test.jsonl", rows(7, "test")),
    }


def complaint(**options) -> str:
    """The sentence that the user is shown."""
    with pytest.raises(UserError) as caught:
        Table(**options).train(0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# solutions


def test_training_rows_have_their_solution_and_a_run_goes_on_with_the_same_ones_alone(files, tmp_path):
    """A row of which it is null, or that lacks it, has none; held-out rows need no such field."""
    data = [{**row, "steps": f"because {row['id']}" if row["level"] else None} for row in rows(10)]
    del data[3]["steps"]
    files["train_data"] = write(tmp_path / "solved.jsonl", data)
    task = Table(**files, id="id", solution="steps")
    problems = {p.id: p for p in map(task.train, range(10))}
    assert problems["train-1"].metadata["solution"] == "because train-1"
    assert not any("solution" in problems[name].metadata for name in ("train-0", "train-3"))
    assert all("solution" not in p.metadata for p in task.heldout(7))
    assert task.right(problems["train-1"]) == "\\boxed{1}", "the verifier's, not the field's"
    fingerprints = {Table(**files, id="id").fingerprint, task.fingerprint}
    data[1]["steps"] = "because it is"
    write(tmp_path / "solved.jsonl", data)
    assert len({*fingerprints, Table(**files, id="id", solution="steps").fingerprint}) == 3


def test_a_solution_that_is_not_there_or_would_be_shown_is_refused(files):
    assert complaint(**files, solution="answr").endswith(
        "train.jsonl.gz: no row has a solution in the field 'answr' (did you mean 'answer'?)"
    )
    with pytest.raises(ValidationError, match=r"prompt: \{level\} would show the solution"):
        Table(**files, prompt="{problem} {level}", solution="level")


# levels


def test_only_the_levels_that_are_named_are_trained_on_and_the_rest_is_counted(files):
    """Rows 0 to 9 have the levels 0, 1, 2, 0, …: seven of level 0 or 2. What is held out keeps all levels."""
    task = Table(**files, level="level", levels=["0", "2"])
    assert {task.train(i).prompt for i in range(7)} == {f"train {i}?\n" for i in (0, 2, 3, 5, 6, 8, 9)}
    assert {p.level for p in task.heldout(99)} == {"0", "1", "2"}
    assert task.counts == {"train": 7, "heldout": 7, "excluded": 0, "of_other_levels": 3}
    assert task.fingerprint != Table(**files, level="level").fingerprint


def test_levels_that_no_problem_has_are_refused(files):
    assert "no problem is of the levels 3 (known: 0, 1, 2)" in complaint(**files, level="level", levels=["3"])
    with pytest.raises(ValidationError, match="name the field with a problem's level"):
        Table(**files, levels=["3"])


# epochs


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 40), seed=st.integers(0, 2**40))
def test_every_epoch_has_every_problem_once(tmp_path_factory, n, seed):
    folder = tmp_path_factory.mktemp("table")
    options = {
        "train_data": write(folder / "train.jsonl", rows(n)),
        "heldout_data": write(folder / "test.jsonl", rows(1, "test")),
    }
    task = Table(**options, seed=seed)
    for epoch in range(3):
        assert Counter(task.train(epoch * n + i).prompt for i in range(n)) == Counter(f"train {i}?\n" for i in range(n))


def test_epochs_and_seeds_have_orders_of_their_own(files):
    orders = [
        tuple(task.train(epoch * 10 + i).id for i in range(10))
        for task in (Table(**files, seed=0), Table(**files, seed=1))
        for epoch in range(2)
    ]
    assert len(set(orders)) == 4


def test_a_position_is_random_access(files):
    forwards = [Table(**files).train(i) for i in range(25)]
    task = Table(**files)
    assert [task.train(i) for i in reversed(range(25))] == forwards[::-1]


def test_the_order_is_pinned(files):
    """By hand from the definition: positions sorted by the uniform numbers of the epoch's seed. A change of the order
    would make old checkpoints go on with other problems."""
    for epoch in (0, 5):
        keys = [float(uniforms(np.array([identity_seed(3, "epoch", epoch)]), np.array([i]))[0, 0]) for i in range(10)]
        expected = [f"train-{i}" for i in sorted(range(10), key=keys.__getitem__)]
        task = Table(**files, id="id", seed=3)
        assert [task.train(epoch * 10 + i).id for i in range(10)] == expected


# held-out problems


def test_held_out_problems_take_each_level_in_turn(files):
    task = Table(**files, level="level")
    found = task.heldout(7)
    assert [p.level for p in found] == ["0", "1", "2", "0", "1", "2", "0"]  # 3, 2 and 2 of the seven
    assert {p.prompt for p in found} == {f"test {i}?\n" for i in range(7)}
    assert task.heldout(100) == found
    assert task.heldout(4) == found[:4]
    assert task.heldout(0) == []


def test_which_problems_come_first_does_not_depend_on_the_order_of_the_file(files, tmp_path):
    turned = {**files, "heldout_data": write(tmp_path / "turned.jsonl", rows(7, "test")[::-1])}
    first, second = (Table(**each, level="level").heldout(4) for each in (turned, files))
    assert [(p.id, p.prompt, p.answer, p.level) for p in first] == [(p.id, p.prompt, p.answer, p.level) for p in second]


def test_a_training_problem_that_is_held_out_is_excluded_and_counted(files, tmp_path):
    both = [{**row, "problem": text} for row, text in zip(rows(2), ["TEST  3?", "test\uff14?"], strict=True)]
    files["train_data"] = write(tmp_path / "both.jsonl", rows(10)[2:] + both)
    task = Table(**files)
    assert {task.train(i).prompt for i in range(40)} == {f"train {i}?\n" for i in range(2, 10)}
    assert task.counts == {"train": 8, "heldout": 7, "excluded": 2}
    assert counted(task) == "problems of table: 8 train, 7 heldout, 2 excluded"


def test_a_training_set_that_is_held_out_altogether_is_refused(files):
    files["train_data"] = files["heldout_data"]
    assert "every problem is also held out" in complaint(**files)


# identity


def test_ids_are_the_files_or_a_hash_of_the_prompt(files):
    assert Table(**files, id="id").heldout(7)[0].id.startswith("test-")
    by_prompt = {p.prompt: p.id for p in Table(**files).heldout(7)}
    assert len(set(by_prompt.values())) == 7
    assert by_prompt["test 0?\n"] == hashlib.blake2b(b"test 0?\n", digest_size=8).hexdigest()
    assert {p.prompt: p.id for p in Table(**files, seed=9).heldout(7)} == by_prompt


def test_the_fingerprint_follows_the_contents(files, tmp_path):
    first = Table(**files).fingerprint
    assert Table(**files).fingerprint == first
    copies = {
        key: write(tmp_path / f"copy-{key}.jsonl", rows(n, word))
        for key, n, word in (("train_data", 10, "train"), ("heldout_data", 7, "test"))
    }
    assert Table(**copies).fingerprint == first, "the name of a file is not its contents"
    changed = [
        Table(**files, seed=1),
        Table(**files, prompt="Q: {problem}\n"),
        Table(**files, id="id"),
        Table(**files, level="level"),
        Table(**{**files, "train_data": write(tmp_path / "a.jsonl", rows(10)[::-1])}),
        Table(**{**files, "train_data": write(tmp_path / "b.jsonl", rows(10), answer="0")}),
        Table(**{**files, "heldout_data": write(tmp_path / "c.jsonl", rows(6, "test"))}),
    ]
    assert len({first, *(task.fingerprint for task in changed)}) == 1 + len(changed)


# formats


def test_parquet_and_json_lines_hold_the_same_problems(files, tmp_path):
    for key, n, word in (("train_data", 10, "train"), ("heldout_data", 7, "test")):
        pq.write_table(pa.Table.from_pylist(rows(n, word)), tmp_path / f"{key}.parquet", row_group_size=4)
    parquet = {key: str(tmp_path / f"{key}.parquet") for key in ("train_data", "heldout_data")}
    assert Table(**parquet, level="level").fingerprint == Table(**files, level="level").fingerprint


def test_blank_lines_and_a_byte_order_mark_are_no_rows(files, tmp_path):
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n\r\n".join(json.dumps(row).encode() for row in rows(10)) + b"\r\n")
    assert Table(**{**files, "train_data": str(path)}).counts["train"] == 10


def test_the_prompt_shows_the_fields_it_names(files):
    task = Table(**files, prompt="{id}: {problem} {{level}} \\boxed{{}}\n")
    assert {p.prompt for p in task.heldout(1)} <= {f"test-{i}: test {i}? {{level}} \\boxed{{}}\n" for i in range(7)}


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("no field", "the same for every problem"),
        ("{problem} \\boxed{}", "write {{ and }} for braces"),
        ("{problem} \\boxed{", "write {{ and }} for braces"),
        ("{ }", "write {{ and }} for braces"),
        ("qwen-mth", "did you mean 'qwen-math'"),
        ("{problem} {answer}", "would show the gold answer"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_before_anything_is_read(prompt, reason):
    with pytest.raises(ValidationError, match=reason):
        Table(train_data="a.jsonl", heldout_data="b.jsonl", prompt=prompt)


@pytest.mark.parametrize("gold", [r"so it is \boxed{7}.", "6 + 1 = <<6+1=7>>7\n#### 7", 7, 7.0, "7"])
def test_worked_solutions_and_numbers_will_do_as_answers(files, tmp_path, gold):
    task = Table(**{**files, "train_data": write(tmp_path / "a.jsonl", rows(1), answer=gold)})
    assert task.verify(task.train(0), "it is 7", finished=True).success
    assert task.verify(task.train(0), "it is 8", finished=True).outcome is Outcome.INCORRECT


def test_many_are_verified_as_each_alone(files):
    task = Table(**files)
    problems = [task.train(i) for i in range(10)]
    verdicts = task.verify_all([(p, str(i), True) for i, p in enumerate(problems)])
    assert [v.answer for v in verdicts] == [str(i) for i in range(10)]
    assert [v.success for v in verdicts] == [p.answer == str(i) for i, p in enumerate(problems)]
    assert task.verify_all([]) == []


def test_verdicts_carry_their_time(files):
    task = Table(**files)
    assert task.verify(task.train(0), "1", finished=True).seconds > 0


def test_text_answers_need_match_exact(files, tmp_path):
    files["train_data"] = write(tmp_path / "text.jsonl", rows(3), answer="p - q")
    task = Table(**files, verifier="exact")
    assert task.verify(task.train(0), r"\boxed{p-q}", finished=True).success
    message = complaint(**files)
    assert "text.jsonl, line 1: the answer 'p - q' is not a number" in message
    assert "verifier: exact" in message


def test_a_training_table_may_lack_levels_that_the_held_out_one_has(files, tmp_path):
    plain = [{"problem": row["problem"], "answer": row["answer"]} for row in rows(3)]
    files["train_data"] = write(tmp_path / "plain.jsonl", plain)
    assert Table(**files, level="level").train(0).level == ""
    files["train_data"], files["heldout_data"] = files["heldout_data"], files["train_data"]
    assert "plain.jsonl, line 1: no field 'level'" in complaint(**files, level="level")


def test_a_level_of_null_is_no_level(files, tmp_path):
    files["heldout_data"] = write(tmp_path / "a.jsonl", rows(3, "test"), level=None)
    assert {p.level for p in Table(**files, level="level").heldout(3)} == {""}


# bad input


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"problem": "a", "answer": ', "broken JSON"),
        ('["a"]', "an object with fields is needed, not list"),
        ("[" * 100_000, "broken JSON"),
        ('{"problem": "a", "answer": "1", "answer": "2"}', "broken JSON: two fields are called 'answer'"),
        ('{"answer": "1"}', "no field 'problem' (known: answer)"),
        ('{"problme": "a", "answer": "1"}', "no field 'problem' (did you mean 'problme'?)"),
        ('{"problem": null, "answer": "1"}', "'problem' holds null"),
        ('{"problem": ["a"], "answer": "1"}', "'problem' holds [\"a\"]"),
        ('{"problem": "a", "answer": true}', "'answer' holds true"),
        ('{"problem": "a", "answer": " "}', "'answer' holds no answer"),
        ('{"problem": "a", "answer": "no box: \\\\boxed{"}', "'answer' holds no box that is closed"),
        ('{"problem": "\\ud800", "answer": "1"}', "half a surrogate pair"),
        ('{"problem": "train 0?", "answer": "1"}', "the same prompt as"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(files, tmp_path, line, reason):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(rows(1)[0]) + "\n\n" + line + "\n")
    message = complaint(**{**files, "train_data": str(path)})
    assert message.startswith(f"{path}, line 3: ")
    assert reason in message


def test_an_id_that_is_there_twice_names_both_lines(files, tmp_path):
    path = write(tmp_path / "twice.jsonl", [*rows(3), {**rows(1)[0], "problem": "another"}])
    assert (
        complaint(**{**files, "train_data": path}, id="id")
        == f"{path}, line 4: the same id 'train-0' as {path}, line 1"
    )


def test_bytes_that_are_no_text(files, tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"problem": "é", "answer": "1"}\n'.encode("latin-1"))
    assert f"{path}, line 1: broken JSON" in complaint(**{**files, "train_data": str(path)})


@pytest.mark.parametrize("empty", [b"", b"\n \n"])
def test_an_empty_table(files, tmp_path, empty):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(empty)
    assert complaint(**{**files, "heldout_data": str(path)}) == f"{path}: holds no problems"


def test_a_missing_file_and_an_unknown_format(files, tmp_path):
    assert "no such file" in complaint(**{**files, "train_data": str(tmp_path / "none.jsonl")})
    assert "not a table; known are files ending in .jsonl" in complaint(**{**files, "train_data": "data/train.xlsx"})


def test_archives_and_parquet_files_that_are_cut_short(files, tmp_path):
    whole = Path(files["train_data"]).read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[:-20])
    assert "cut.jsonl.gz: cannot be read after line" in complaint(
        **{**files, "train_data": str(tmp_path / "cut.jsonl.gz")}
    )
    (tmp_path / "plain.jsonl.gz").write_text("{}")
    assert "cannot be read after line 0" in complaint(**{**files, "train_data": str(tmp_path / "plain.jsonl.gz")})
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    assert "cut.parquet: cannot be read after row 0" in complaint(
        **{**files, "train_data": str(tmp_path / "cut.parquet")}
    )


def test_nothing_is_read_before_a_problem_is_asked_for():
    task = Table(train_data="nowhere.jsonl", heldout_data="nowhere.jsonl")
    assert Table(**task.model_dump()) == task


def test_hub_datasets_without_the_package_say_what_to_install(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # what Python does for a package that is missing
    assert "pip install 'outrider[datasets]'" in complaint(**{**files, "train_data": "hf:openai/gsm8k@main:train"})
    assert "is written hf:name" in complaint(**{**files, "train_data": "hf:@main"})


# real data


@pytest.fixture
def data():
    if not (DATA / "gsm8k").is_dir():
        pytest.skip(f"no {DATA}")
    return DATA


def test_gsm8k(data):
    task = Table(train_data=f"{data}/gsm8k/train.jsonl.gz", heldout_data=f"{data}/gsm8k/test.jsonl", id="id")
    assert task.counts == {"train": 7473, "heldout": 1319, "excluded": 0}  # the sizes its paper gives
    for problem in [*task.heldout(200), *(task.train(i) for i in range(200))]:
        assert task.verify(problem, f"therefore {problem.answer}.", finished=True).success
        assert not task.verify(problem, f"therefore {problem.answer}1", finished=True).success


def test_math500_beside_a_training_pool_that_holds_four_of_its_problems(data):
    """The pool's own field in_eval marks them: the oracle for the overlap, made by another program."""
    with gzip.open(data / "dapo_math17k" / "train.jsonl.gz", "rt") as lines:
        marked = sum((json.loads(line)["in_eval"] or "").startswith("math500") for line in lines)
    options = {"heldout_data": f"{data}/math500/test.jsonl", "id": "id", "level": "level", "verifier": "exact"}
    task = Table(train_data=f"{data}/dapo_math17k/train.jsonl.gz", **options)
    assert task.counts == {"train": 16919 - marked, "heldout": 500, "excluded": marked}
    assert marked == 4
    assert [p.level for p in task.heldout(10)] == list("1234512345")
    for problem in task.heldout(500):
        assert task.verify(problem, rf"\boxed{{{problem.answer}}}", finished=True).success
