"""A run on disk as data: what is read, what is not, and what is excluded."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_rows import random_rows, row, run_of_rows, table
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from outrider.errors import UserError
from outrider.importers.plain import PLAIN
from outrider.record import Rollout
from outrider.record.sampling import Context
from outrider.record.store import RolloutStore
from outrider.record.verdict import correct
from outrider.report.data import RunData
from outrider.report.run import gather, open_run
from runs import CONFIG, run_of

TOKEN_COLUMNS = ("token_ids", "logprobs", "entropies", "prompt_ids", "prefix_ids")


def drawn(member: int = 0, step: int = 1, tokens: int = 3, **rest: object) -> Rollout:
    ids = np.arange(tokens, dtype=np.int32)
    given = {
        "entropies_T": np.linspace(0, 1, tokens, dtype=np.float32),
        "prompt_ids": np.array([1, 0], np.int32),
        "token_ids": ids,
        "logprobs_T": -np.arange(1, tokens + 1, dtype=np.float32),
        "prefix_ids": ids[:0],
        "text": f"text {member}",
    }
    return Rollout("p", f"train:{step}:p", member, **{**given, **rest})


def stored(path: Path, steps: int = 3) -> Path:
    """A run folder with two rollouts a step."""
    folder = run_of(path, 0)
    for step in range(1, steps + 1):
        folder.rollouts.write(step, [drawn(0, step), drawn(1, step, tokens=5)], levels={"p": "hard"})
        folder.append_metrics(step, {"reward": step / 8} | ({"late": 1.0} if step > 1 else {}))
    folder.rollouts.write(0, [drawn(step=0).verified(correct("7"), 1.0)], name="evaluate")
    folder.close()
    return path


def column(run: RunData, sql: str) -> list[object]:
    return run.query(f"SELECT {sql} AS x FROM rollouts ORDER BY split, step, member")["x"].tolist()


def test_a_run_folder_has_the_plain_columns(tmp_path):
    run = open_run(stored(tmp_path / "mine"))
    assert run.name == "mine"
    assert run.notices == []
    described = run.db.execute("DESCRIBE rollouts").fetchall()
    types = {pa.string(): "VARCHAR", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
    assert [(name, type) for name, type, *_ in described] == [(f.name, types[f.type]) for f in PLAIN]
    assert column(run, "split") == ["evaluate"] + ["train"] * 6
    assert column(run, "step") == [0, 1, 1, 2, 2, 3, 3]
    assert column(run, "tokens") == [3, 3, 5, 3, 5, 3, 5]
    assert column(run, "logprob") == [-2.0, -2.0, -3.0, -2.0, -3.0, -2.0, -3.0]  # means of -1 … -3 and -1 … -5
    assert column(run, "entropy") == [0.5] * 7
    assert column(run, "outcome") == ["correct"] + [None] * 6
    assert column(run, "level") == [None] + ["hard"] * 6
    assert column(run, "context") == ["plain"] * 7
    assert set(column(run, "prompt")) == {None}


def test_metrics_are_columns_and_evaluations_and_config_are_there(tmp_path):
    run = open_run(stored(tmp_path))
    np.testing.assert_equal(run.metrics["late"], [np.nan, 1.0, 1.0])
    assert run.metrics["step"].tolist() == [1, 2, 3]
    assert run.config == CONFIG
    assert run.evaluations == {}


def test_observed_tokens_have_no_entropy_of_the_policy(tmp_path):
    store = RolloutStore(tmp_path)
    flags = np.array([True, False, True])
    store.write(1, [drawn(trainable_T=flags, entropies_T=np.array([1, 9, 2], np.float32))])
    store.write(2, [drawn(entropies_T=None)])
    store.write(3, [drawn(tokens=0)])
    entropy, tokens = (column(open_run(tmp_path), name) for name in ("entropy", "tokens"))
    assert tokens == [2, 3, 0], "observed tokens cost nothing"
    np.testing.assert_equal(entropy, [1.5, np.nan, np.nan])


def scanned(run: RunData, sql: str) -> str:
    """The plan of a query, in which a scan names every column that it reads."""
    return str(run.db.execute(f"EXPLAIN {sql}").fetchall()[0][1])


@pytest.mark.parametrize("gathered", [False, True])
def test_a_question_about_steps_reads_no_tokens(tmp_path, gathered):
    run = open_run(stored(tmp_path))
    if gathered:
        gather(run)
    plan = scanned(run, "SELECT step, count(*) FROM rollouts WHERE outcome = 'correct' GROUP BY step")
    assert "step" in plan
    assert not [name for name in (*TOKEN_COLUMNS, "text") if re.search(rf"\b{name}\b", plan)]  # nor in context_kind


def test_the_plan_does_name_tokens_that_are_read(tmp_path):
    """Or the test above could not fail."""
    run = open_run(stored(tmp_path))
    assert "token_ids" in scanned(run, "SELECT sum(tokens) FROM rollouts")
    assert "entropies" in scanned(run, "SELECT sum(entropy) FROM rollouts")
    gather(run)
    plan = scanned(run, "SELECT sum(tokens), sum(entropy), sum(logprob) FROM rollouts")
    assert not [name for name in TOKEN_COLUMNS if name in plan]  # stored numbers by now
    assert re.search(r"\btext\b", scanned(run, "SELECT max(text) FROM rollouts"))


def everything(run: RunData) -> list[tuple[object, ...]]:
    return run.db.execute("SELECT * FROM rollouts ORDER BY split, step, group_id, member").fetchall()


def test_gathering_changes_no_row(tmp_path):
    run = open_run(stored(tmp_path / "run"))
    before = everything(run)
    gather(run)
    gather(run)
    assert everything(run) == before
    assert len(before) == 7
    pq.write_table(table(random_rows(0)), tmp_path / "plain.parquet")
    plain = open_run(tmp_path / "plain.parquet")
    assert plain.name == "plain"
    before = repr(everything(plain))  # NaN is not equal to itself
    gather(plain)
    assert repr(everything(plain)) == before
    assert before == repr(everything(run_of_rows(random_rows(0))))


def test_a_truncated_and_a_foreign_file_are_excluded_and_named(tmp_path):
    path = stored(tmp_path)
    whole = (path / "rollouts/train-00000002.parquet").read_bytes()
    (path / "rollouts/train-00000002.parquet").write_bytes(whole[: len(whole) // 2])
    pq.write_table(pa.table({"a": [1]}), path / "rollouts/other.parquet")
    (path / "rollouts/.train-00000004.parquet.tmp").write_bytes(whole[:100])
    run = open_run(path)
    assert column(run, "step") == [0, 1, 1, 3, 3]
    foreign, truncated = sorted(run.notices)
    assert "other.parquet was skipped: it has no plain rollouts" in foreign
    assert "train-00000002.parquet was skipped: it is not a complete Parquet file" in truncated
    assert foreign.endswith("(3 of 5 files are read)")


def test_a_file_damaged_within_is_excluded_when_it_is_read(tmp_path):
    path = stored(tmp_path)
    file = path / "rollouts/train-00000003.parquet"
    data = bytearray(file.read_bytes())
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(pq.read_schema(file).names.index("problem_id"))
    start = chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(data)
    run = open_run(path)
    assert run.notices == []
    gather(run)
    assert column(run, "step") == [0, 1, 1, 2, 2]
    assert len(run.notices) == 1
    assert "train-00000003.parquet was skipped: it is damaged" in run.notices[0]


def test_rollouts_of_another_version_are_excluded(tmp_path):
    path = stored(tmp_path, steps=2)
    file = path / "rollouts/train-00000001.parquet"
    read = pq.read_table(file)
    pq.write_table(read.replace_schema_metadata({b"outrider.schema_version": b"99"}), file)
    run = open_run(path)
    assert column(run, "step") == [0, 2, 2]
    assert "rollout schema version 99" in run.notices[0]


def test_a_run_that_is_being_written_is_read_up_to_its_last_whole_line(tmp_path):
    path = stored(tmp_path)
    with (path / "metrics.jsonl").open("a") as lines:
        lines.write('{"step": 4, "rew')
    (path / "evaluations").mkdir()
    (path / "evaluations/step-00000002.json").write_text('{"schema')
    run = open_run(path)
    assert run.metrics["step"].tolist() == [1, 2, 3]
    assert "step-00000002.json was skipped" in run.notices[0]


def test_a_run_without_rollouts_is_empty(tmp_path):
    run_of(tmp_path, 0).close()
    run = open_run(tmp_path)
    assert column(run, "step") == []
    gather(run)
    assert run.db.execute("SELECT count(*) FROM rollouts").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "there is nothing at"),
        (lambda path: path.mkdir(), "is neither a run folder nor has Parquet files"),
        (lambda path: path.write_bytes(b"PAR1"), "nothing at .* can be read; .* it is not a complete Parquet file"),
        (lambda path: pq.write_table(pa.table({"step": [1]}), path), r"missing columns: split, problem_id"),
    ],
)
def test_what_cannot_be_read_at_all_is_one_sentence(tmp_path, make, sentence):
    path = tmp_path / "it.parquet"
    make(path)
    with pytest.raises(UserError, match=sentence):
        open_run(path)


def test_a_plain_file_may_lack_what_may_be_null(tmp_path):
    needed = [field.name for field in PLAIN if not field.nullable]
    pq.write_table(table([row(member=0), row(member=1)]).select(needed), tmp_path / "a.parquet")
    pq.write_table(table([row(step=2, outcome="correct")]).select([*needed, "outcome"]), tmp_path / "b.parquet")
    run = open_run(tmp_path)
    gather(run)
    assert column(run, "outcome") == [None, None, "correct"]
    assert column(run, "tokens") != column(run, "tokens")  # NaN


def test_prompts_are_decoded_where_the_run_has_its_tokenizer_and_seeds_do_not_show(tmp_path):
    folder = stored(tmp_path, steps=1)
    examples_before = np.array([1, 1, 1, 0], np.int32)
    seeded = drawn(step=2, prompt_ids=examples_before, context=Context("seeded", ("q",)))
    RolloutStore(folder / "rollouts").write(2, [seeded, drawn(1, step=2)])
    run = open_run(folder)
    assert run.prompts(["p"]) == {}
    (folder / "model").mkdir()
    Tokenizer(WordLevel({"there": 0, "hello": 1}, "there")).save(str(folder / "model/tokenizer.json"))
    assert run.prompts(["p", "unknown"]) == {"p": "hello there"}
    assert run.prompts([]) == {}


def test_beginnings_of_rollouts_are_decoded_by_the_same_tokenizer(tmp_path):
    folder = stored(tmp_path, steps=1)
    tokens = np.array([1, 0, 1], np.int32)
    RolloutStore(folder / "rollouts").write(2, [drawn(m, step=2, token_ids=tokens) for m in range(2)])
    run = open_run(folder)
    places = [(2, "train:2:p/1", 2), (2, "train:2:p/1", 0), (2, "train:2:p/7", 1), (1, "train:2:p/0", 1)]
    assert run.beginnings(places) == {}
    (folder / "model").mkdir()
    Tokenizer(WordLevel({"there": 0, "hello": 1}, "there")).save(str(folder / "model/tokenizer.json"))
    assert run.beginnings(places) == {places[0]: "hello there", places[1]: "", places[3]: "hello"}  # no member 7
    assert run.beginnings([]) == {}


def test_a_digit_is_no_name(tmp_path):
    assert open_run(stored(tmp_path / "grpo" / "0")).name == "grpo/0"
