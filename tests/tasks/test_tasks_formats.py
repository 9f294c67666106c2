"""Tables as users have them: every format, columns of any name, prompts as messages, rows without an answer."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.config import Evaluate, Validate, load_options, load_recipe
from outrider.errors import UserError
from outrider.explore.corpus import read_corpus
from outrider.model.load import Policy
from outrider.model.options import PolicyOptions
from outrider.record import Problem
from outrider.tasks import Suite, Table
from outrider.tasks.rows import read_rows
from outrider.tasks.task import counted
from outrider.validate.check import check
from real_models import make_tokenizer

ROWS = [{"problem": f'p {i}, "q"\nr?', "answer": str(i), "level": str(i % 2)} for i in range(5)]
SYSTEM, USER = {"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}


def jsonl(path: Path, rows: list) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def saved(folder: Path, rows: list[dict], shards: int = 1) -> str:
    """As ``datasets.Dataset.save_to_disk`` writes it; a folder that datasets 5.2.0 wrote was read alike by hand."""
    folder.mkdir(parents=True)
    whole, names = pa.Table.from_pylist(rows), []
    for k in range(shards):
        names.append(f"data-{k:05d}-of-{shards:05d}.arrow")
        part = whole.slice(k * len(rows) // shards, (k + 1) * len(rows) // shards - k * len(rows) // shards)
        with pa.ipc.new_stream(folder / names[-1], part.schema) as out:
            out.write_table(part)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return str(folder)


def written(folder: Path, kind: str) -> str:
    """``ROWS`` in a format."""
    path = folder / f"rows{kind}"
    if kind == "saved":
        return saved(path, ROWS)
    if kind == "shards":
        return saved(path, ROWS, shards=3)
    if kind == "splits":
        saved(path / "train", ROWS)
        saved(path / "test", ROWS[:1])
        (path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
        return str(path)
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return str(path)
    if kind.startswith(".csv"):
        plain = folder / "plain.csv"
        with plain.open("w", newline="") as file:
            out = csv.DictWriter(file, list(ROWS[0]))
            out.writeheader()
            out.writerows(ROWS)
        text = plain.read_bytes()
    elif kind.removesuffix(".gz") == ".json":
        text = json.dumps(ROWS, indent=1).encode()
    else:
        text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    path.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
    return str(path)


# formats

KINDS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet", "saved", "shards", "splits")


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_holds_the_same_rows(tmp_path, kind):
    source = written(tmp_path, kind)
    found = list(read_rows(source, "train"))
    assert [dict(row.fields) for row in found] == ROWS
    assert len({row.place for row in found}) == len(ROWS)
    heldout = jsonl(tmp_path / "other.jsonl", [{"problem": "other?", "answer": "0"}])
    plain = Table(train_data=written(tmp_path, ".jsonl"), heldout_data=heldout)
    assert Table(train_data=source, heldout_data=heldout).fingerprint == plain.fingerprint


@settings(max_examples=60, deadline=None)
@given(cells=st.lists(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1), min_size=1, max_size=4))
def test_csv_gives_back_any_text(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("csv") / "any.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["n", "text"], *([i, cell] for i, cell in enumerate(cells))])
    assert [row.fields["text"] for row in read_rows(str(path), "train")] == cells


def test_json_lines_by_the_name_of_json_are_lines(tmp_path):
    path = tmp_path / "lines.json"
    path.write_text("\n" + json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1]))
    assert [(row.place, dict(row.fields)) for row in read_rows(str(path), "train")] == [
        (f"{path}, line 2", ROWS[0]),
        (f"{path}, line 3", ROWS[1]),
    ]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "problem,answer\np?,1\nq?,2,3\n", "a.csv, line 3: 3 cells, but the first line names 2 columns"),
        ("a.csv", 'problem,answer\n"p\nq?",1\n"r', "a.csv, line 4: broken CSV: unexpected end of data"),
        ("a.csv", "answer,answer\n1,2\n", "a.csv, line 1: two columns are called 'answer'"),
        ("a.csv", "", "a.csv: holds no problems"),
        ("a.csv", "problem,answer\n", "a.csv: holds no problems"),
        ("a.csv", "problem;answer\np?;1\n", "a.csv, line 2: no field 'problem' (did you mean 'problem;answer'?)"),
        ("a.json", "[]", "a.json: holds no problems"),
        ("a.json", "[1]", "a.json, row 1: an object with fields is needed, not int"),
        ("a.json", '[{"problem": "p?", "answer": "1"},', "a.json: broken JSON: "),
        ("a.json", '{\n "data": []\n}', "a.json, line 1: broken JSON: "),
        ("a.json", '{"data": [{"problem": "p?"}]}', "a.json, line 1: no field 'problem' (known: data)"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(tmp_path, monkeypatch, name, text, sentence):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    with pytest.raises(UserError) as caught:
        Table(heldout_data=name).heldout(1)
    assert str(caught.value).startswith(sentence)


def test_csv_that_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"problem,answer\n\xe9?,1\n")
    with pytest.raises(UserError, match=r"a\.csv, line 1: broken CSV: 'utf-8' codec"):
        Table(heldout_data=str(tmp_path / "a.csv")).heldout(1)


def test_folders_that_are_no_dataset_name_what_is_in_them(tmp_path):
    def sentence(source, split="train"):
        with pytest.raises(UserError) as caught:
            list(read_rows(str(source), split))
        return str(caught.value).replace(str(tmp_path), "")

    splits = written(tmp_path, "splits")
    assert sentence(splits, "valid").endswith(
        "holds no split 'valid'; name one of its own: /rowssplits/train, /rowssplits/test"
    )
    (tmp_path / "data" / "main").mkdir(parents=True)
    assert sentence(tmp_path / "data").endswith("it has neither state.json nor any table")
    jsonl(tmp_path / "data" / "main" / "a.jsonl", ROWS)
    assert sentence(tmp_path / "data").endswith("name a file in it: /data/main/a.jsonl")
    (tmp_path / "rowssplits" / "train" / "data-00000-of-00001.arrow").unlink()
    assert "data-00000-of-00001.arrow: cannot be read after row 0" in sentence(splits)
    (tmp_path / "rowssplits" / "train" / "state.json").write_text("{}")
    assert "state.json: not as save_to_disk writes it (KeyError: '_data_files')" in sentence(splits)


def test_a_corpus_of_examples_may_be_compressed(tmp_path):
    line = json.dumps({"id": "a", "problem": "p?", "solution": "1"}) + "\n"
    (tmp_path / "a.jsonl").write_text(line)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    assert read_corpus(str(tmp_path / "a.jsonl.gz")) == read_corpus(str(tmp_path / "a.jsonl"))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(line.encode())[:-9])
    with pytest.raises(ValueError, match=r"cannot read .*cut\.jsonl\.gz"):
        read_corpus(str(tmp_path / "cut.jsonl.gz"))


# columns of any name

VERL = {
    "data_source": "gsm8k",
    "prompt": [USER],
    "reward_model": {"style": "rule", "ground_truth": "4"},
    "extra_info": {"index": 7, "question": "2 + 2"},
    "Problem: text": "2+2",
    "réponse-1": "4",
}


@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ({"prompt": "{extra_info.question}=", "answer": "reward_model.ground_truth"}, "2 + 2="),
        ({"prompt": "Q: {Problem: text} {{x}}", "answer": "réponse-1"}, "Q: 2+2 {x}"),
        ({"prompt": "{prompt.0.content}", "answer": "réponse-1"}, "2 + 2?"),
        ({"prompt": "deepseek-math", "question": "Problem: text", "answer": "réponse-1"}, "User: 2+2\n"),
    ],
)
def test_columns_of_any_name_and_inside_of_others(tmp_path, options, prompt):
    [problem] = Table(heldout_data=jsonl(tmp_path / "a.jsonl", [VERL]), id="extra_info.index", **options).heldout(1)
    assert problem.prompt.startswith(prompt)
    assert (problem.id, problem.answer) == ("7", "4")


def test_a_column_whose_own_name_is_dotted_comes_first(tmp_path):
    flat = {"problem": "p?", "a.b": "1", "a": {"b": "2"}}
    [problem] = Table(heldout_data=jsonl(tmp_path / "a.jsonl", [flat]), answer="a.b").heldout(1)
    assert problem.answer == "1"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"prompt": "{question}"}, "no field 'question' (did you mean 'extra_info.question'?)"),
        (
            {"answer": "reward_model.ground_thruth"},
            "no field 'reward_model.ground_thruth' (did you mean 'reward_model.",
        ),
        ({"answer": "reward_model"}, "the field 'reward_model' holds {"),
        ({"prompt": "{prompt}"}, "the field 'prompt' holds messages, not a text; write messages: prompt"),
        ({"prompt": "{prompt.1.content}"}, "no field 'prompt.1.content' (did you mean 'prompt.0.content'?)"),
        ({"prompt": "{problem!r}"}, "no field 'problem!r' ("),
    ],
)
def test_a_name_that_leads_nowhere_has_the_nearest_that_does(tmp_path, options, sentence):
    table = Table(**{"heldout_data": jsonl(tmp_path / "a.jsonl", [VERL]), "prompt": "{Problem: text}", **options})
    with pytest.raises(UserError) as caught:
        table.heldout(1)
    assert f"line 1: {sentence}" in str(caught.value)


# messages


def chat(tmp_path: Path, *rows: list, name: str = "chat.jsonl", **options) -> Table:
    path = jsonl(tmp_path / name, [{"messages": list(messages), "answer": "4"} for messages in rows])
    return Table(heldout_data=path, messages="messages", **options)


def test_messages_are_written_by_the_chat_template_as_they_are(tmp_path):
    turns = [SYSTEM, USER, {"role": "assistant", "content": "4"}, {"role": "user", "content": " 3 + 3?\n"}]
    [problem] = chat(tmp_path, turns).heldout(1)
    tokenizer = make_tokenizer("qwen2")
    policy = Policy(None, tokenizer, PolicyOptions(chat=True))  # type: ignore[arg-type]
    wanted = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    assert tokenizer.decode(policy.encode(problem)) == wanted
    assert problem.prompt == " 3 + 3?\n"


def test_verls_parquet(tmp_path):
    path = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist([VERL | {"prompt": [SYSTEM, USER]}]), path)
    [problem] = Table(heldout_data=str(path), messages="prompt", answer="reward_model.ground_truth").heldout(1)
    assert problem.messages_before == (SYSTEM,)
    assert (problem.prompt, problem.answer) == ("2 + 2?", "4")


def test_parts_that_are_texts_are_joined_and_what_is_null_is_nothing(tmp_path):
    parts = [{"type": "text", "text": "2 + "}, {"type": "text", "text": "2?"}]
    [problem] = chat(tmp_path, [SYSTEM | {"name": None}, USER | {"content": parts}]).heldout(1)
    assert (problem.messages_before, problem.prompt) == ((SYSTEM,), "2 + 2?")


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "the field 'messages' holds [], not a list of messages"),
        (["2 + 2?"], "the field 'messages' holds [\"2 + 2?\"], not a list of messages"),
        ([USER, {"role": "assistant", "content": "4"}], "'messages' ends with a message of the role 'assistant'"),
        ([{"from": "human", "value": "2 + 2?"}], "message 0 of 'messages' has no role (it has from, value)"),
        ([USER | {"role": "usr"}], "message 0 of 'messages' has the unknown role 'usr' (did you mean 'user'?)"),
        (
            [USER | {"content": [{"type": "image"}]}],
            'message 0 of \'messages\' holds [{"type": "image"}] as its content',
        ),
        (
            [USER | {"content": [{"type": "image_url", "image_url": "a.png", "text": ""}]}],
            'message 0 of \'messages\' holds [{"type": "image_url", "image_url": "a.png", "text": ""}] as its content',
        ),
        ([SYSTEM, USER | {"content": None}], "message 1 of 'messages' holds null as its content"),
        ([USER | {"content": " "}], "the last message of 'messages' is empty, so the prompt holds no question"),
    ],
)
def test_what_is_no_prompt_in_messages_is_refused(tmp_path, messages, sentence):
    with pytest.raises(UserError) as caught:
        chat(tmp_path, messages).heldout(1)
    assert f"line 1: {sentence}" in str(caught.value)


@pytest.mark.parametrize("verifier", ["number", "exact", "math", "qa"])
@pytest.mark.parametrize("row", ['{"problem": "a?", "answer": NaN}', '{"problem": NaN, "answer": "1"}'])
def test_a_number_that_is_none_is_no_text(tmp_path, verifier, row):
    """Data frames write NaN for what is missing; as a text it would be asked, or be the gold answer."""
    (tmp_path / "test.jsonl").write_text(row + "\n")
    with pytest.raises(UserError, match=r"line 1: the field '\w+' holds null, not a text or number"):
        Table(heldout_data=str(tmp_path / "test.jsonl"), verifier={verifier: {}}).heldout(1)
    skipping = Table(heldout_data=str(tmp_path / "test.jsonl"), verifier={verifier: {}}, skip="empty")
    with pytest.raises(UserError, match=r"every row is skipped"):
        skipping.heldout(1)


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([["a?"], ["1"], ["2"]], names=["problem", "answer", "answer"]), path)
    with pytest.raises(UserError, match=r"twice.parquet: two columns are called 'answer'$"):
        Table(heldout_data=str(path)).heldout(1)


def test_nan_inside_of_other_fields_is_null_too(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text('{"problem": "a?", "reward_model": {"ground_truth": NaN}}\n')
    with pytest.raises(UserError, match=r"line 1: the field 'reward_model.ground_truth' holds null"):
        Table(heldout_data=str(path), answer="reward_model.ground_truth", verifier="exact").heldout(1)


def test_messages_that_differ_before_the_last_are_other_problems(tmp_path):
    again = {"role": "user", "content": "And now?"}
    both = [[USER, {"role": "assistant", "content": text}, again] for text in ("4", "5")]
    first, second = chat(tmp_path, *both).heldout(2)
    assert first.id != second.id
    rows = [{"messages": both[0], "answer": "4"}]
    table = Table(
        train_data=jsonl(tmp_path / "train.jsonl", [*rows, {"messages": both[1], "answer": "5"}]),
        heldout_data=jsonl(tmp_path / "test.jsonl", [{"messages": [SYSTEM, *both[0]], "answer": "4"}]),
        messages="messages",
    )
    assert table.counts == {"train": 1, "heldout": 1, "excluded": 1}, "the system's message is no part of the question"


def test_messages_without_a_chat_template_are_refused_before_anything_is_read():
    task = {"table": {"train_data": "a.jsonl", "heldout_data": "b.jsonl", "messages": "messages"}}
    sentence = r"the prompts of task 'table' are messages, which a chat template writes: policy\.chat=true"
    with pytest.raises(UserError, match=sentence):
        load_recipe("grpo", [f"task={json.dumps(task)}"])
    with pytest.raises(UserError, match=sentence):
        load_options(Evaluate, {"model": "base:countdown", "task": task}, [], "evaluate")
    assert load_recipe("grpo", [f"task={json.dumps(task)}", "policy.chat=true"]).task.conversational
    policy = Policy(None, make_tokenizer("qwen2"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="problem 'a': its prompt is messages"):
        policy.encode(Problem("a", "2 + 2?", messages_before=()))
    with pytest.raises(ValidationError, match="the field 'messages' holds the whole prompt"):
        Table(heldout_data="a.jsonl", messages="messages", prompt="boxed")


def test_two_system_messages_are_refused():
    policy = Policy(None, make_tokenizer("qwen3"), PolicyOptions(chat=True, system="Be brief."))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"its messages have a system message, and policy\.system is another"):
        policy.encode(Problem("a", "2 + 2?", messages_before=(SYSTEM,)))
    text = policy.tokenizer.decode(policy.encode(Problem("a", "2 + 2?", messages_before=())))
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>")


# rows without an answer


HOLES = [
    {"problem": "a?", "answer": "1"},
    {"problem": "b?", "answer": None},
    {"problem": "c?", "answer": " "},
    {"problem": "d?"},
    {"problem": "e?", "answer": float("nan")},
    {"problem": "f?", "answer": []},
    {"problem": "", "answer": "2"},
    {"problem": "g?", "answer": 0},
]


def test_rows_without_an_answer_or_a_question_are_skipped_and_counted(tmp_path):
    files = {"train_data": jsonl(tmp_path / "a.jsonl", HOLES), "heldout_data": jsonl(tmp_path / "b.jsonl", ROWS)}
    task = Table(**files, skip="empty")
    assert {task.train(i).prompt for i in range(4)} == {"a?\n", "g?\n"}
    assert task.counts == {"train": 2, "heldout": 5, "excluded": 0, "skipped_in_train": 6, "skipped_in_heldout": 0}
    assert counted(task).endswith("6 skipped in train, 0 skipped in heldout")


@pytest.mark.parametrize("row", HOLES[1:7])
def test_without_skip_they_are_refused(tmp_path, row):
    table = Table(heldout_data=jsonl(tmp_path / "a.jsonl", [HOLES[0], row]))
    with pytest.raises(UserError, match=r"a\.jsonl, line 2: ") as caught:
        table.heldout(1)
    assert ("skip: empty leaves such rows out" in str(caught.value)) == ("answer" in row and row["problem"] != "")


def test_skipping_everything_is_a_mistake_in_a_name(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", HOLES)
    with pytest.raises(
        UserError, match=r"every row is skipped \(.*line 1: no field 'anser' \(did you mean 'answer'\?\)\)"
    ):
        Table(heldout_data=path, answer="anser", skip="empty").heldout(1)


def test_a_broken_answer_is_not_an_empty_one(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [HOLES[0], {"problem": "b?", "answer": "seven"}])
    with pytest.raises(UserError, match="line 2: the answer 'seven' is not a number"):
        Table(heldout_data=path, skip="empty").heldout(1)


def test_validate_and_suites_skip_and_count_too(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", HOLES)
    report = check(Validate(task={"table": {"heldout_data": path, "skip": "empty"}}))
    [checked] = report.sides
    assert (len(checked.side.entries), checked.side.refused, checked.side.skipped) == (2, [], 6)
    (tmp_path / "mine.yaml").write_text("table: {skip: empty}\nsets: {holes: {data: a.jsonl}}\n")
    suite = Suite(suite=str(tmp_path / "mine.yaml"), data=str(tmp_path))
    assert (suite.counts, suite.size) == ({"holes": 2, "rows_skipped": 6}, 2)


def test_a_reward_function_that_asks_for_messages_sees_all_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        "def score(prompts, completions, **kwargs):\n"
        "    return [float([m['role'] for m in prompt] == ['system', 'user']) for prompt in prompts]\n"
    )
    verifier = {"function": {"function": "own.py:score", "style": "trl", "messages": True}}
    table = chat(tmp_path, [SYSTEM, USER], verifier=verifier)
    try:
        assert table.verify(table.heldout(1)[0], "4", finished=True).success
    finally:
        table.close()
