"""Dumps of other frameworks as the plain table: formats told by content, nothing excluded in silence."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import tracemalloc
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dumps
from dumps import CHAT, TURNS, TURNS_TEXT, column, one_of_each, rows, said
from outrider.errors import UserError
from outrider.importers import FORMATS, detect, read
from outrider.importers.files import head_of
from outrider.importers.jsonobject import CutOffError, members
from outrider.importers.plain import PLAIN
from outrider.importers.success import SuccessRule, outcome_of
from outrider.importers.text import as_text

# telling formats apart


def test_every_format_is_told_from_every_other_by_content_alone(tmp_path):
    for name, path in one_of_each(tmp_path).items():
        assert detect(path) == name.partition("/")[0], name
        assert [n for n in FORMATS if FORMATS[n].recognises(head_of(path))] == [name.partition("/")[0]]
        assert len(rows(path)) == 1


def test_text_that_is_compressed_reads_as_the_text(tmp_path):
    """By its name's ending; what is truncated is one sentence, wherever it breaks off."""
    for name, path in one_of_each(tmp_path).items():
        data = path.read_bytes()
        if data.startswith((b"PAR1", b"PK")):
            continue  # compressed within
        packed = tmp_path / f"{name.replace('/', '-')}.GZ"
        packed.write_bytes(gzip.compress(data))
        assert detect(packed) == detect(path), name
        assert [row | {"where": ""} for row in rows(packed)] == [row | {"where": ""} for row in rows(path)], name
        for cut in (12, len(packed.read_bytes()) - 9):
            packed.write_bytes(gzip.compress(data)[:cut])
            with pytest.raises(UserError, match=r"cannot be read completely: its compression is damaged or truncated"):
                read(packed)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"{", b'{"a": 1}\n', b"[1, 2]\n", b"a,b\n1,2\n", b"PAR1 and no more", b"PK\3\4", b"\xff\xfe\0"],
)
def test_what_is_no_dump_is_none_and_reading_it_says_so(tmp_path, content):
    path = tmp_path / "completions_00001.parquet"  # a name tells nothing
    path.write_bytes(content)
    assert detect(path) is None
    with pytest.raises(UserError, match=r"not a dump of a known format|so its format is unknown"):
        read(path)


def test_the_plain_form_is_no_dump(tmp_path):
    pq.write_table(PLAIN.empty_table(), tmp_path / "plain.parquet")
    assert detect(tmp_path / "plain.parquet") is None


def test_mistakes_are_one_sentence(tmp_path):
    path = dumps.lines(tmp_path / "a.jsonl", [{"prompt": "p", "solved": True}])
    for options, words in [
        ({"format": "ver"}, "no format 'ver'; did you mean 'verl'"),
        ({"columns": {"sucess": "solved"}}, "unknown column 'sucess' of a rollout; did you mean 'success'"),
        (
            {"columns": {"problem": "prompt", "success": "solve"}},
            "no record has a field 'solve'; did you mean 'solved'",
        ),
        ({"columns": {"success": "solved"}}, "name at least the field of the problem"),
        ({"columns": {"success": "solved > yes"}}, "'yes', which is not a number"),
        ({}, r"its fields are prompt, solved: name those of the problem and of success"),
    ]:
        with pytest.raises(UserError, match=words):
            read(path, **options)
    with pytest.raises(UserError, match="nothing at"):
        detect(tmp_path / "missing")


def test_a_folder_with_two_formats_must_be_told_which(tmp_path):
    one_of_each(tmp_path)
    with pytest.raises(UserError, match="several formats"):
        read(tmp_path)
    found = read(tmp_path, format="open-instruct")
    assert found.rollouts.num_rows == 1
    assert said(found, "9 other files", "skipped")


# identity


def test_groups_members_and_problems(tmp_path):
    for step in (2, 10, 1):  # as text, 10 would come before 2
        records = [dumps.verl(step, prompt, f"{step} {i}", 0.0) for i, prompt in enumerate("abaa")]
        dumps.lines(tmp_path / f"{step}.jsonl", records)
    found = rows(tmp_path)
    assert column(found, "step") == [1] * 4 + [2] * 4 + [10] * 4
    assert column(found, "member") == [0, 0, 1, 2] * 3
    assert len({row["group_id"] for row in found}) == 6
    assert len({row["problem_id"] for row in found}) == 2  # the same in every step
    assert column(found, "problem_id")[0].startswith("p-")


def test_a_problems_id_is_the_same_in_another_process_and_file(tmp_path):
    path = dumps.lines(tmp_path / "1.jsonl", [dumps.verl(1, "2 + 2?", "4", 1.0)])
    assert column(rows(path), "problem_id") == ["p-485a0cd90586969e"]  # BLAKE2b of the text, 8 bytes: no salt


# any other dump


def test_two_columns_of_one_name_are_refused_for_the_last_would_win_without_a_word(tmp_path):
    (tmp_path / "a.csv").write_text("prompt,ok,ok\np?,1,0\n")
    twins = pa.table([pa.array(["p?"]), pa.array([1]), pa.array([0])], names=["prompt", "ok", "ok"])
    pq.write_table(twins, tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(UserError, match=rf"{name}.*: two columns are called 'ok'$"):
            read(tmp_path / name, columns={"problem": "prompt", "success": "ok"})


def test_two_columns_are_enough_in_json_parquet_and_csv(tmp_path):
    records = [{"prompt": "2 + 2?", "is_correct": i == 1, "x": 'a,\n"b"'} for i in range(3)]
    dumps.lines(tmp_path / "a.jsonl", records)
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    quoted = '"2 + 2?",{},"a,\n""b"""\n'
    (tmp_path / "a.csv").write_text(
        "\ufeffprompt,is_correct,x\n" + "".join(quoted.format(r["is_correct"]) for r in records)
    )
    for name in ("a.jsonl", "a.parquet", "a.csv"):
        found = rows(tmp_path / name, columns={"problem": "prompt", "success": "is_correct", "text": "x"})
        assert column(found, "outcome") == ["incorrect", "correct", "incorrect"], name
        assert column(found, "member", "text") == [(i, 'a,\n"b"') for i in range(3)], name
        assert column(found, "prompt", "split") == [("2 + 2?", "evaluate")] * 3, name


def test_the_other_columns_and_a_rule(tmp_path):
    record = {"id": 3, "q": CHAT, "a": TURNS, "m": {"r": "0.75"}, "s": "4", "n": 5.0, "end": "eos", "why": None}
    path = dumps.lines(tmp_path / "a", [record, record | {"m": {"r": 0.2}, "end": "length"}])
    columns = {"problem": "id", "prompt": "q", "text": "a", "success": "m.r >= 0.5", "reward": "m.r", "step": "s"}
    columns |= {"tokens": "n", "stop": "end", "detail": "why"}
    found = read(path, columns=columns)
    table = found.rollouts.to_pylist()
    assert column(table, "problem_id", "group_id", "step", "split") == [("3", "train:4:3", 4, "train")] * 2
    assert column(table, "outcome", "reward", "tokens") == [("correct", 0.75, 5), ("incorrect", 0.2, 5)]
    assert column(table, "stop", "text") == [(None, TURNS_TEXT), ("length", TURNS_TEXT)]
    assert said(found, "1 stop reason")
    assert column(rows(path, columns=columns | {"split": "greedy"}), "split") == ["greedy"] * 2


def test_what_says_nothing_is_never_verified_and_what_is_unclear_is_an_error(tmp_path):
    values = [None, float("nan"), "", True, 0, "incorrect", "Timeout"]
    path = dumps.lines(tmp_path / "a", [{"p": "x", "s": value} for value in values])
    columns = {"problem": "p", "success": "s"}
    assert column(rows(path, columns=columns), "outcome") == [None] * 3 + [
        "correct",
        "incorrect",
        "incorrect",
        "timeout",
    ]
    for unclear in (0.5, "maybe", 2, ["C"]):
        dumps.lines(path, [{"p": "x", "s": True}, {"p": "x", "s": unclear}])
        with pytest.raises(UserError, match=rf"a, line 2: s is {re.escape(repr(unclear))}, .*neither"):
            read(path, columns=columns)


def test_rollouts_without_a_problem_are_counted(tmp_path):
    path = dumps.lines(tmp_path / "a", [{"p": None, "s": 1}, {"s": 1}, {"p": "x", "s": 1}])
    found = read(path, columns={"problem": "p", "success": "s"})
    assert found.rollouts.num_rows == 1
    assert said(found, "2 rollouts without a problem")


# damage and hostile values


def test_a_last_line_that_is_truncated_is_counted_and_one_before_is_an_error(tmp_path):
    good = dumps.verl(1, "p", "o", 1.0)
    cut = json.dumps(good)[:-9]
    found = read(dumps.lines(tmp_path / "1.jsonl", [good, "", cut], end=""))
    assert found.rollouts.num_rows == 1
    assert said(found, "1 last line was skipped")
    for broken, reason in [
        (cut, "not JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply|not JSON"),
    ]:
        path = dumps.lines(tmp_path / "1.jsonl", [good, broken, good])
        with pytest.raises(UserError, match=rf"1.jsonl, line 2: it is ({reason})"):
            read(path)
    (tmp_path / "1.jsonl").write_bytes(json.dumps(good).encode() + b'\n{"input": "\xff"}\n' + json.dumps(good).encode())
    with pytest.raises(UserError, match="line 2: it is not UTF-8"):
        read(tmp_path)


def test_an_empty_dump_has_no_rollouts(tmp_path):
    (tmp_path / "1.jsonl").write_bytes(b"")
    with pytest.raises(UserError, match="is empty"):
        read(tmp_path)
    for name in FORMATS:
        if name not in ("trl", "inspect", "columns"):
            assert read(tmp_path / "1.jsonl", format=name).rollouts.schema == PLAIN
    dumps.trl(tmp_path / "t", 1, {"acc": []}, prompt=pa.array([], pa.string()), completion=pa.array([], pa.string()))
    found = read(tmp_path / "t")
    assert found.rollouts.num_rows == 0
    assert said(found, "no rollouts")
    assert read(dumps.inspect_json(tmp_path / "i.json", [])).rollouts.num_rows == 0


HOSTILE = [
    *(("step", value) for value in (10**30, 1.5, -1, "soon", [1])),
    *(("score", value) for value in ("high", {}, [1.0])),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_a_number_that_is_none_names_file_line_and_value(tmp_path, key, value):
    path = dumps.lines(
        tmp_path / "1.jsonl", [dumps.verl(1, "p", "o", 1.0), dumps.verl(1, "p", "o", 1.0) | {key: value}]
    )
    with pytest.raises(UserError, match=r"1.jsonl, line 2: \w+ is .*, which is no"):
        read(path)


def test_a_negative_count_is_none(tmp_path):
    path = dumps.lines(tmp_path / "a.jsonl", [{"q": "p", "n": 5}, {"q": "p", "n": -5}])
    with pytest.raises(UserError, match=r"a.jsonl, line 2: tokens is -5, which is not an integer in range"):
        read(path, columns={"problem": "q", "tokens": "n"})


def test_rollouts_that_name_no_step_are_counted(tmp_path):
    good = dumps.verl(1, "p", "o", 1.0)
    found = read(dumps.lines(tmp_path / "1.jsonl", [good, good | {"step": None}, good | {"step": None}]))
    assert dumps.said(found, "2 rollouts have no step and are read as step 0")
    assert found.rollouts["step"].to_pylist() == [1, 0, 0]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_reads_as_the_lines_of_its_elements(tmp_path, indent):
    """One line that begins with a bracket was taken for the header of a CSV without rows."""
    records = [dumps.verl(1, f"p{i}", "o", float(i)) for i in range(3)]
    path = tmp_path / "1.json"
    path.write_text("\ufeff" + json.dumps(records, indent=indent), encoding="utf-8")
    assert detect(path) == "verl"
    assert rows(path) == rows(dumps.lines(tmp_path / "1.jsonl", records))
    assert read(path, format="columns", columns={"problem": "input"}).rollouts.num_rows == 3
    for text, words in [
        ("[]", None),
        (json.dumps(records)[:-9], "after element 2"),
        ('[{"q": 1}, 2]', "element 2: it is"),
    ]:
        path.write_text(text)
        if words is None:
            assert read(path, format="columns", columns={"problem": "q"}).rollouts.num_rows == 0
        else:
            with pytest.raises(UserError, match=words):
                read(path, format="columns", columns={"problem": "q"})


def test_texts_of_any_kind_are_read(tmp_path):
    texts = ["\ud800", "\0", "a\u2028b\x85c", "\U0001d518", "", TURNS, TURNS[0]]
    records = [json.dumps(dumps.verl(1, "p", text, math.inf)) for text in texts]
    found = rows(dumps.lines(tmp_path / "1.jsonl", records))
    assert column(found, "text")[:5] == ["\\ud800", "\0", "a\u2028b\x85c", "\U0001d518", ""]
    assert column(found, "text")[5] == TURNS_TEXT
    assert column(found, "reward") == [math.inf] * len(texts)


@pytest.mark.parametrize("value", [7, 0.5, True, ["4", "5"], ["4"], {"answer": "4"}, [[TURNS[0]]]])
@pytest.mark.parametrize("named", [True, False])
def test_a_response_that_is_none_is_refused_by_its_name(tmp_path, value, named):
    """A number, a list of responses: as JSON they would be verified, and mostly wrong."""
    good = dumps.verl(1, "p", "4", 1.0)
    path = dumps.lines(tmp_path / "1.jsonl", [good, good | {"output": value}])
    columns = {"problem": "input", "text": "output"} if named else None
    with pytest.raises(
        UserError, match=r"1.jsonl, line 2: (output|the response) is .*(one row per response|neither text)"
    ):
        read(path, columns=columns, format="columns" if named else None)


def test_a_response_that_is_null_is_counted_and_stays_null(tmp_path):
    path = dumps.lines(tmp_path / "a", [{"p": "x", "r": r} for r in (None, "", "4", float("nan"), [])])
    found = read(path, columns={"problem": "p", "text": "r"})
    assert found.rollouts["text"].to_pylist() == [None, "", "4", None, None]
    assert said(found, "3 rollouts have no response (r is null)")
    assert column(rows(path, columns={"problem": "p"}), "text") == [None] * 5  # no field was named


def test_files_that_are_pooled_are_said_to_be(tmp_path):
    for name in "ab":
        dumps.lines(tmp_path / name, [{"p": "x", "s": 1}])
    assert said(read(tmp_path, columns={"problem": "p", "success": "s"}), "2 files are read as one")


@pytest.mark.parametrize(
    "record",
    [
        dumps.episode([3]),
        dumps.episode([dumps.trace("t", [3], {})]),
        dumps.episode([dumps.trace("t", [dumps.node(CHAT[1], 5)], {})]),
        dumps.episode([dumps.trace("t", [], {}) | {"rewards": {"a": {"score": "x"}}}]),
        dumps.vf_result(0, 1.0, token_usage=3),
        dumps.open_instruct(1, 0, [1], [2], logprobs="x"),
        dumps.lm_eval(1, ["x"], {}) | {"doc_hash": 5},
    ],
)
def test_a_record_of_another_build_is_one_sentence(tmp_path, record):
    path = dumps.lines(tmp_path / "a.jsonl", [record, record])
    with pytest.raises(UserError, match=r"a.jsonl, line 1: "):
        read(path)


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = dumps.trl(
        tmp_path, 1, {"acc": [1.0] * 999}, prompt=["p" * 99] * 999, completion=[str(i) for i in range(999)]
    )
    data = bytearray(path.read_bytes())
    data[40:400] = b"\xff" * 360
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"completions_00001\.parquet: cannot be read after row 0"):
        read(path)


# properties

VALUES = st.one_of(st.none(), st.booleans(), st.sampled_from([0, 1, "true", "C", "incorrect", ""]))
RECORDS = st.lists(
    st.tuples(st.one_of(st.text(max_size=80), st.integers()), VALUES, st.text(), st.one_of(st.none(), st.floats())),
    max_size=12,
)


@given(records=RECORDS)
def test_a_mapping_keeps_what_the_records_say(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("dump") / "a"
    kept = [r for r in records if r[0] != ""]
    path.write_text("".join(json.dumps({"p": p, "s": s, "t": t, "r": r}) + "\n" for p, s, t, r in records))
    columns = {"problem": "p", "success": "s", "text": "t", "reward": "r"}
    found = rows(path, format="columns", columns=columns)
    assert column(found, "outcome") == [outcome_of(s) for _, s, _, _ in kept]
    assert column(found, "text") == [t for _, _, t, _ in kept]
    assert [repr(r) for r in column(found, "reward")] == [repr(r) for _, _, _, r in kept]
    same = {(str(a[0]) == str(b[0]), x == y) for a, x in zip(kept, column(found, "problem_id"), strict=True)
            for b, y in zip(kept, column(found, "problem_id"), strict=True)}  # fmt: skip
    assert same <= {(True, True), (False, False)}  # ids are equal exactly where problems are
    assert sorted(column(found, "group_id", "member")) == sorted(set(column(found, "group_id", "member")))


LEAVES = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text())
JSON = st.recursive(LEAVES, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)), max_leaves=8)


@given(value=JSON)
def test_anything_becomes_a_text(value):
    assert isinstance(as_text(value), str)
    assert isinstance(as_text([{"role": "user", "content": value, "tool_calls": value}]), str)


MEMBERS = st.dictionaries(
    st.text(), st.one_of(st.integers(), st.text(), st.lists(st.floats(allow_nan=False))), max_size=4
)


@given(data=MEMBERS, chunk=st.integers(1, 9), cut=st.floats(0, 1, exclude_max=True))
def test_a_big_object_is_read_as_a_whole_one_is(data, chunk, cut):
    data = {key: value for key, value in data.items() if key not in ("each", "last")}
    text = json.dumps({**data, "each": [1, {"a": [2]}, "three"], "last": 12})
    elements = [("each", 1), ("each", {"a": [2]}), ("each", "three")]
    with patch("outrider.importers.jsonobject.CHUNK", chunk):
        assert list(members(io.StringIO(text), "each")) == [*data.items(), *elements, ("last", 12)]
        with pytest.raises(CutOffError):
            list(members(io.StringIO(text[: int(cut * len(text))]), "each"))


def test_rules_compare_numbers_and_words():
    assert [SuccessRule.parse("r > 0.5").outcome(v, "") for v in (1, "0.6", 0.5, True, None, float("nan"))] == [
        "correct", "correct", "incorrect", "correct", None, None,
    ]  # fmt: skip
    assert [SuccessRule.parse("v == pass").outcome(v, "") for v in ("pass", "Pass", "fail")] == [
        "correct",
        "incorrect",
        "incorrect",
    ]
    assert SuccessRule.parse("v != 0").outcome("0.0", "here") == "incorrect"
    with pytest.raises(UserError, match="here: r is 'x', which cannot be compared"):
        SuccessRule.parse("r >= 1").outcome("x", "here")


def test_a_batch_is_in_memory_and_not_the_file(tmp_path):
    record = json.dumps(dumps.verl(1, "p" * 1000, "o" * 9000, 1.0))
    path = dumps.lines(tmp_path / "1.jsonl", [record] * 2000)  # 20 MB
    tracemalloc.start()
    read(path)
    peak = tracemalloc.get_traced_memory()[1]  # of Python's own objects: a batch, not the file
    tracemalloc.stop()
    assert peak < path.stat().st_size / 2
