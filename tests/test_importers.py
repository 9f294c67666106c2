"""Dumps of other frameworks as the plain table: each format told by its content, nothing left out in silence."""

from __future__ import annotations

import io
import json
import math
import re
import tracemalloc
import zipfile
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dumps
from outrider.errors import UserError
from outrider.importers import FORMATS, detect, read
from outrider.importers.files import look
from outrider.importers.jsonobject import CutOffError, members
from outrider.importers.plain import PLAIN
from outrider.importers.success import Rule, outcome_of
from outrider.importers.text import as_text

CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}]
TURNS = [
    {"role": "assistant", "content": "I ask.", "tool_calls": [{"function": {"name": "add", "arguments": '{"a": 2}'}}]},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": "Vier: 四\u2028."},
]
TURNS_TEXT = '[assistant]\nI ask.\n[call add({"a": 2})]\n\n[tool]\n4\n\n[assistant]\nVier: 四\u2028.'


def rows(*args: Any, **options: Any) -> list[dict[str, Any]]:
    """What was read, row by row; the schema holds for every test."""
    found = read(*args, **options)
    assert found.rollouts.schema == PLAIN
    found.rollouts.validate(full=True)
    assert not any(found.rollouts[f.name].null_count for f in PLAIN if not f.nullable)
    return found.rollouts.to_pylist()


def column(found: list[dict[str, Any]], *names: str) -> list[Any]:
    return [row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in found]


def said(found: Any, *words: str) -> bool:
    return any(all(word in note for word in words) for note in found.notes)


def one_of_each(folder: Path) -> dict[str, Path]:
    """A small dump of every format, and a second shape where a format has one."""
    nodes = [dumps.node(CHAT[1], None), dumps.node(TURNS[2], 0, [-0.5])]
    traces = [dumps.trace("t", nodes, {"r": 1.0})]
    samples = [dumps.inspect_sample(1, 1, {"match": "C"})]
    return {
        "trl": dumps.trl(folder / "trl", 1, {"acc": [1.0]}, prompt=["p"], completion=["c"], advantage=[0.0]),
        "verl": dumps.lines(folder / "verl", [dumps.verl(1, "p", "o", 1.0)]),
        "verifiers": dumps.lines(folder / "vf", [dumps.vf_result(1, 1.0)]),
        "verifiers/episodes": dumps.lines(folder / "episodes", [dumps.episode(traces)]),
        "verifiers/traces": dumps.lines(folder / "traces", traces),
        "open-instruct": dumps.lines(folder / "oi", [dumps.open_instruct(1, 0, [1], [2])]),
        "lm-eval": dumps.lines(folder / "lm", [dumps.lm_eval(1, ["o"], {"acc": 1.0})]),
        "inspect": dumps.inspect_eval(folder / "log", samples),
        "inspect/deflate": dumps.inspect_eval(folder / "old", samples, zstd=False),
        "inspect/json": dumps.inspect_json(folder / "json", samples),
    }


# telling formats apart


def test_every_format_is_told_from_every_other_by_content_alone(tmp_path):
    for name, path in one_of_each(tmp_path).items():
        assert detect(path) == name.partition("/")[0], name
        assert [FORMATS[n].name for n in FORMATS if FORMATS[n].recognises(look(path))] == [name.partition("/")[0]]
        assert len(rows(path)) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"{", b'{"a": 1}\n', b"[1, 2]\n", b"a,b\n1,2\n", b"PAR1 and no more", b"PK\3\4", b"\xff\xfe\0"],
)
def test_what_is_no_dump_is_none_and_reading_it_says_so(tmp_path, content):
    path = tmp_path / "completions_00001.parquet"  # a name tells nothing
    path.write_bytes(content)
    assert detect(path) is None
    with pytest.raises(UserError, match=r"no dump of a known format|nothing tells its format"):
        read(path)


def test_the_plain_form_is_no_dump(tmp_path):
    pq.write_table(PLAIN.empty_table(), tmp_path / "plain.parquet")
    assert detect(tmp_path / "plain.parquet") is None


def test_mistakes_are_one_sentence(tmp_path):
    path = dumps.lines(tmp_path / "a.jsonl", [{"prompt": "p", "solved": True}])
    for options, words in [
        ({"format": "ver"}, "no format 'ver'; did you mean 'verl'"),
        ({"columns": {"sucess": "solved"}}, "no column 'sucess'; did you mean 'success'"),
        (
            {"columns": {"problem": "prompt", "success": "solve"}},
            "no record has a field 'solve'; did you mean 'solved'",
        ),
        ({"columns": {"success": "solved"}}, "told at least its problem"),
        ({"columns": {"success": "solved > yes"}}, "'yes', which is no number"),
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
    assert said(found, "9 other files", "left out")


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


# TRL


def test_trl_reads_messages_rewards_and_steps(tmp_path):
    dumps.trl(tmp_path, 2, {"acc": [1.0, 0.0]}, prompt=[CHAT] * 2, completion=[TURNS, TURNS[2:]], advantage=[0.5, -0.5])
    dumps.trl(tmp_path, 1, {"acc": [0.0]}, prompt=[CHAT], completion=[TURNS], advantage=[0.0], source=["web"])
    found = rows(tmp_path)
    assert column(found, "step", "member", "reward", "advantage") == [
        (1, 0, 0.0, 0.0),
        (2, 0, 1.0, 0.5),
        (2, 1, 0.0, -0.5),
    ]
    assert column(found, "text") == [TURNS_TEXT, TURNS_TEXT, "Vier: 四\u2028."]
    assert column(found, "prompt")[0] == "[system]\nAdd.\n\n[user]\n2 + 2?"
    assert column(found, "outcome") == [None] * 3  # a reward is no verdict
    judged = read(tmp_path, columns={"success": "acc >= 1"})
    assert judged.rollouts["outcome"].to_pylist() == ["incorrect", "correct", "incorrect"]
    assert said(judged, "Success is acc >= 1")


def test_trl_adds_several_rewards_and_says_so(tmp_path):
    rewards = {"acc": [1.0, None, None], "format": [0.25, 0.25, None]}
    dumps.trl(tmp_path, 1, rewards, prompt=["a"] * 3, completion=["b"] * 3, note=["x"] * 3)
    found = read(tmp_path)
    reward = found.rollouts["reward"].to_pylist()
    assert reward[:2] == [1.25, 0.25]
    assert math.isnan(reward[2])  # nobody could score it: not zero, and not missing
    assert said(found, "sum of acc, format")
    assert rows(tmp_path, columns={"reward": "acc"})[0]["reward"] == 1.0


def test_trl_leaves_out_a_batch_that_was_logged_again(tmp_path):
    batch = {"prompt": ["a", "b"], "completion": ["c", "d"], "advantage": [0.5, -0.5]}
    for step, reward in [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)]:
        dumps.trl(tmp_path, step, {"acc": [reward, None]}, **batch)
    found = read(tmp_path)
    assert found.rollouts["step"].to_pylist() == [1, 1, 4, 4]
    assert said(found, "2 files were left out", "the file before")


# verl


def test_verl_takes_acc_as_success_where_it_states_one(tmp_path):
    accs = [True, 0.0, 0.1, None, "True"]  # a manager without an accuracy fills in the score; str is `default=str`
    records = [dumps.verl(1, "p", "o", 0.1, acc=acc, pred="4") for acc in accs]
    found = read(dumps.lines(tmp_path / "1.jsonl", [*records, dumps.verl(1, "p", "o", 1.0)]))
    assert found.rollouts["outcome"].to_pylist() == ["correct", "incorrect", None, None, "correct", None]
    assert found.rollouts["reward"].to_pylist() == [0.1] * 5 + [1.0]
    assert found.rollouts["answer"].to_pylist() == ["4"] * 5 + [None]
    assert said(found, "1 rollout has an acc other than 0 and 1")
    assert said(found, "3 of 6 rollouts have a verdict")


def test_verl_tells_validation_from_training_and_groups_by_uid(tmp_path):
    dumps.lines(tmp_path / "train/1.jsonl", [dumps.verl(1, "p", "o", 1.0, uid=f"{u}_0_0") for u in "ab"])
    dumps.lines(tmp_path / "val/1.jsonl", [dumps.verl(1, "p", "o", 1.0, reward=1.0)])
    found = rows(tmp_path)
    assert column(found, "split") == ["train", "train", "evaluate"]
    assert len({row["group_id"] for row in found}) == 3  # two draws of one prompt are two groups
    assert len({row["problem_id"] for row in found}) == 1


def test_verl_keeps_the_last_output_of_an_agents_rollout(tmp_path):
    uids = ["a_0_0", "a_0_1", "a_1_0", "b_0_0", "b_0_1", "b_0_2"]
    records = [dumps.verl(1, "p", uid, 1.0, uid=uid) for uid in uids]
    found = read(dumps.lines(tmp_path / "1.jsonl", records))
    assert found.rollouts["text"].to_pylist() == ["a_0_1", "a_1_0", "b_0_2"]
    assert said(found, "3 earlier outputs", "left out")


# verifiers and prime-rl


def test_results_of_vf_eval(tmp_path):
    error = {"error": "Boom", "error_chain_repr": "Boom()", "error_chain_str": "Boom: it broke"}
    records = [
        dumps.vf_result(0, 1.0, CHAT, TURNS),
        dumps.vf_result(0, 0.4, CHAT, None, is_truncated=True),
        dumps.vf_result(1, 0.0, error=error),
        {"prompt": CHAT, "completion": "4", "answer": "4", "task": "default", "reward": 0.5},  # as 0.1.5 wrote it
    ]
    path = dumps.lines(tmp_path / "run/results.jsonl", records)
    found = rows(path)
    assert column(found, "outcome") == [None, None, "error", None]
    assert column(found, "stop") == ["stop", "length", "stop", None]
    assert column(found, "text")[0] == TURNS_TEXT
    assert column(found, "detail")[2] == "Boom: it broke"
    assert column(found, "member", "tokens") == [(0, 5), (1, 5), (0, 5), (2, None)]
    assert column(rows(path, columns={"success": "metrics.exact >= 1"}), "outcome") == [
        "correct",
        "incorrect",
        "error",
        None,
    ]


def test_the_threshold_of_vf_eval_is_its_success(tmp_path):
    path = dumps.lines(tmp_path / "results.jsonl", [dumps.vf_result(0, r) for r in (0.49, 0.5, 1.0)])
    (tmp_path / "metadata.json").write_text(json.dumps({"env_id": "x", "pass_threshold": 0.5}))
    found = read(tmp_path)
    assert found.rollouts["outcome"].to_pylist() == ["incorrect", "correct", "correct"]
    assert said(found, "reward >= 0.5", "pass_threshold")
    assert said(found, "1 other file")
    assert path.name == "results.jsonl"


def test_steps_of_prime_rls_folders(tmp_path):
    dumps.lines(tmp_path / "step_2/train_rollouts.jsonl", [dumps.vf_result(0, 1.0)])
    dumps.lines(tmp_path / "step_10/eval_rollouts.jsonl", [dumps.vf_result(0, 1.0)])
    assert column(rows(tmp_path), "step", "split") == [(2, "train"), (10, "evaluate")]


def test_a_trace_is_read_from_its_graph(tmp_path):
    nodes = [
        dumps.node(CHAT[1], None),
        dumps.node({"role": "assistant", "content": "lost"}, 0, [-3.0]),  # a branch that was given up
        dumps.node(
            {"role": "assistant", "content": None, "reasoning_content": "hm"}, 0, [-1.0, -2.0], advantages=[0.5] * 2
        ),
        dumps.node({"role": "tool", "content": [{"type": "text", "text": "4"}], "tool_call_id": "x"}, 2),
        dumps.node({"role": "assistant", "content": "4"}, 3, [-2.0], advantages=[0.5], entropies=[0.25]),
    ]
    policy = {"start": 7, "end": 8}
    work = {"type": "train", "step": 9, "policy": policy}
    done = dumps.trace("t", nodes, {"right": 1.0, "style": 0.5})
    path = dumps.lines(tmp_path / "traces.jsonl", [dumps.episode([done], work, group={"id": "g"})])
    (found,) = rows(path)
    assert found["text"] == "[assistant]\n<think>hm</think>\n\n[tool]\n4\n\n[assistant]\n4"
    assert found["prompt"] == "2 + 2?"
    assert (found["step"], found["split"], found["policy_version"], found["group_id"]) == (9, "train", 7, "train:9:g")
    assert (found["tokens"], found["logprob"]) == (4, -2.0)  # all that was sampled; the mean of -3, -1, -2, -2
    assert (found["entropy"], found["advantage"], found["reward"], found["stop"]) == (0.25, 0.5, 1.5, "stop")
    (judged,) = rows(path, columns={"success": "rewards.right.score >= 1"})
    assert judged["outcome"] == "correct"


def test_failed_limited_and_untrained_traces(tmp_path):
    nodes = [dumps.node(CHAT[1], None), dumps.node({"role": "assistant", "content": "4"}, 0, [-1.0])]
    error = [{"type": "ModelError", "message": "gone"}]
    traces = [
        dumps.trace("a", nodes, {}, ok=False, errors=error),
        dumps.trace("b", nodes, {}, ok=False, is_timeout=True),
        dumps.trace("c", nodes, {"r": 0.0}, stop_condition="max_turns"),
        dumps.trace("d", nodes, {"r": 0.0}, agent={"name": "judge", "trainable": False}),
        dumps.trace("e", [], {}),
    ]
    found = read(dumps.lines(tmp_path / "t.jsonl", [dumps.episode(traces), dumps.episode([])]))
    table = found.rollouts.to_pylist()
    assert column(table, "outcome", "detail") == [
        ("error", "ModelError: gone"),
        ("timeout", None),
        (None, None),
        (None, None),
    ]
    assert column(table, "reward") == [None, None, 0.0, None]
    assert column(table, "stop")[2] == "length"
    assert column(table, "prompt")[3] == "2 + 2?"  # of the task, as the trace has no message
    assert said(found, "1 trace", "not trained", "left out")
    assert said(found, "1 episode without a trace")


def test_prime_rls_two_files_hold_a_rollout_once(tmp_path):
    nodes = [dumps.node(CHAT[1], None), dumps.node({"role": "assistant", "content": "4"}, 0, [-1.0])]
    paid = [nodes[0], nodes[1] | {"advantages": [0.5]}]
    work = {"type": "train", "step": 1}
    folder = tmp_path / "step_1/train"
    dumps.lines(folder / "all/traces.jsonl", [dumps.episode([dumps.trace(n, nodes, {"r": 1.0})], work) for n in "ab"])
    dumps.lines(folder / "effective/traces.jsonl", [dumps.episode([dumps.trace("a", paid, {"r": 1.0})], work)])
    found = rows(tmp_path)
    assert column(found, "advantage", "unused") == [(0.5, ""), (None, "not in an effective batch")]
    assert column(found, "member") == [0, 1]
    assert column(rows(folder / "all"), "unused") == ["", ""]  # nothing tells what was trained on


# open-instruct


def test_open_instruct_has_tokens_and_no_text(tmp_path):
    records = [
        dumps.open_instruct(1, 0, [5, 6], [7, 8, 9], logprobs=[-1.0, -2.0, -3.0]),
        dumps.open_instruct(1, 0, [5, 6], [7, 8, 9], finish_reason="length", logprobs=None),
        dumps.open_instruct(1, 1, [5, 6], [], request_info={"tool_calleds": True}),
        dumps.open_instruct(2, 0, [5, 6], [1], reward=float("nan"), finish_reason="abort"),
    ]
    found = read(dumps.lines(tmp_path / "r.jsonl", records))
    table = found.rollouts.to_pylist()
    assert column(table, "text", "tokens", "logprob") == [
        ("7 8 9", 3, -2.0),
        ("7 8 9", 3, None),
        ("", 0, None),
        ("1", 1, -0.5),
    ]
    assert column(table, "stop") == ["stop", "length", "stop", None]
    assert column(table, "group_id", "member") == [
        ("train:1:0", 0),
        ("train:1:0", 1),
        ("train:1:1", 0),
        ("train:2:0", 0),
    ]
    assert len({row["problem_id"] for row in table}) == 1
    assert math.isnan(table[3]["reward"])
    assert said(found, "token ids")
    assert said(found, "1 rollout called tools")


# lm-eval


def test_lm_eval_reads_one_filter_and_no_likelihoods(tmp_path):
    strict = [dumps.lm_eval(i, [f"r{i}"], {"exact_match": float(i)}) for i in range(2)]
    flexible = [dumps.lm_eval(i, [f"r{i}"], {"exact_match": 1.0}, filter="flexible-extract") for i in range(2)]
    path = dumps.lines(
        tmp_path / "samples_x.jsonl", [*strict, *flexible, dumps.lm_eval_choices(9) | {"filter": "strict-match"}]
    )
    found = read(path)
    table = found.rollouts.to_pylist()
    assert column(table, "text", "outcome", "answer") == [("r0", "incorrect", "0"), ("r1", "correct", "1")]
    assert column(table, "split", "prompt")[0] == ("greedy", "Q: What is 0?\nA:")
    assert said(found, "2 lines of filters other than strict-match")
    assert said(found, "1 line without generated text")
    other = rows(path, columns={"success": "exact_match,flexible-extract", "level": "doc.level"})
    assert column(other, "outcome", "level") == [("correct", "Level 2")] * 2


def test_lm_evals_verdict_on_repeats_is_nobodys(tmp_path):
    sampled = {"gen_args_0": {"arg_0": "Q", "arg_1": {"do_sample": True, "temperature": 0.7}}}
    record = dumps.lm_eval(1, ["a", "b", "a"], {"exact_match": 1.0}, arguments=sampled)
    path = dumps.lines(tmp_path / "s.jsonl", [record])
    found = read(path)
    assert column(found.rollouts.to_pylist(), "text", "member", "outcome") == [
        ("a", 0, None),
        ("b", 1, None),
        ("a", 2, None),
    ]
    assert set(found.rollouts["split"].to_pylist()) == {"evaluate"}
    assert said(found, "1 document has repeats")
    assert column(rows(path, columns={"success": "exact_match >= 1"}), "outcome") == [None] * 3


def test_lm_eval_without_a_metric_that_is_success(tmp_path):
    path = dumps.lines(
        tmp_path / "s.jsonl", [dumps.lm_eval(1, ["a"], {"bleu": 0.3}), dumps.lm_eval(2, ["a"], {"acc": 0.5})]
    )
    found = read(path)
    assert found.rollouts["outcome"].to_pylist() == [None, None]
    assert said(found, "None of the metrics", "bleu")
    assert said(found, "acc other than 0 and 1")


# Inspect


@pytest.mark.parametrize("write", [dumps.inspect_eval, dumps.inspect_json])
def test_inspect_reads_scores_epochs_and_turns(tmp_path, write):
    nan, unscored = float("nan"), {"value": float("nan"), "reason": "refusal", "history": []}
    messages = [
        {**m, "source": s}
        for m, s in zip([*CHAT, *TURNS], ["input", "input", "generate", None, "generate"], strict=True)
    ]
    picture = {"type": "image", "image": "attachment://k"}
    samples = [
        dumps.inspect_sample(7, 1, {"match": "C"}, messages=messages, input=CHAT, attachments={"k": "data:"}),
        dumps.inspect_sample(7, 2, {"match": "I"}),
        dumps.inspect_sample("x", 1, {"match": "N"}, limit={"type": "token", "limit": 9}),
        dumps.inspect_sample("y", 1, {"match": nan}),
        dumps.inspect_sample("z", 1, {}) | {"scores": {"match": unscored}},
        dumps.inspect_sample("p", 1, {"match": "P"}, input=[{"role": "user", "content": [picture]}]),
        dumps.inspect_sample("e", 1, {}, error={"message": "RuntimeError('no')", "traceback": ""}) | {"scores": None},
    ]
    found = read(write(tmp_path / "a.log", samples))
    table = found.rollouts.to_pylist()
    assert column(table, "outcome") == ["correct", "incorrect", "unparseable", "error", "unparseable", None, None]
    assert column(table, "problem_id", "member")[:3] == [("sums/7", 0), ("sums/7", 1), ("sums/x", 0)]
    assert column(table, "text")[:2] == [TURNS_TEXT, "It is 4."]
    assert column(table, "prompt")[::5] == ["[system]\nAdd.\n\n[user]\n2 + 2?", "[image]"]
    assert column(table, "tokens", "stop", "split")[1] == (5, "stop", "evaluate")
    assert column(table, "detail")[6] == "RuntimeError('no')"
    assert said(found, "Success is the score match")
    assert said(found, "1 sample ended in an error")


def test_inspect_with_two_scorers_must_be_told_which(tmp_path):
    path = dumps.inspect_json(
        tmp_path / "a.json", [dumps.inspect_sample(1, 1, {"match": "I", "model": {"right": 0.8}})]
    )
    assert said(read(path), "several scorers", "match, model")
    assert column(rows(path), "outcome") == [None]
    assert column(rows(path, columns={"success": "match"}), "outcome") == ["incorrect"]
    assert column(rows(path, columns={"success": "model.right > 0.5"}), "outcome") == ["correct"]
    assert column(rows(path, columns={"success": "scores.model.value.right > 0.5"}), "outcome") == ["correct"]


def test_inspect_logs_of_two_models_are_said_to_be_mixed(tmp_path):
    for model in ("m/one", "m/two"):
        dumps.inspect_eval(tmp_path / f"{model[2:]}.eval", [dumps.inspect_sample(1, 1, {"match": "C"})], model=model)
    assert said(read(tmp_path), "2 models", "m/one, m/two")


def test_inspect_logs_that_are_cut_off_chunked_or_damaged(tmp_path):
    samples = [dumps.inspect_sample(i, 1, {"match": "C"}) for i in range(3)]
    path = dumps.inspect_json(tmp_path / "a.json", samples)
    text = path.read_text()
    path.write_text(text[: text.index('"id": 2')])
    found = read(path)
    assert found.rollouts.num_rows == 2
    assert said(found, "1 log was read up to where it is cut off")
    path.write_text(text.replace('"id": 1,', '"id": nope,'))
    with pytest.raises(UserError, match="Expecting value"):
        read(path)
    chunked = dumps.inspect_eval(tmp_path / "c.eval", [dumps.inspect_sample(1, 1, {"match": "C"})], zstd=False)
    with zipfile.ZipFile(chunked, "a") as archive:
        archive.writestr("samples/9_epoch_1/sample.json", "{}")
        archive.writestr("samples/9_epoch_1/messages/0.json", "[]")
    found = read(chunked)
    assert found.rollouts.num_rows == 1
    assert said(found, "1 sample was left out, as it is chunked")
    packed = dumps.inspect_eval(tmp_path / "d.eval", samples)
    packed.write_bytes(
        packed.read_bytes().replace(
            pa.Codec("zstd").compress(json.dumps(samples[1]).encode(), asbytes=True)[:40], b"x" * 40
        )
    )
    with pytest.raises(UserError, match=r"1_epoch_1\.json cannot be read"):
        read(packed)


# any other dump


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


def test_what_says_nothing_is_never_judged_and_what_is_unclear_is_an_error(tmp_path):
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
        with pytest.raises(UserError, match=rf"a, line 2: s holds {re.escape(repr(unclear))}, .*neither"):
            read(path, columns=columns)


def test_rollouts_without_a_problem_are_counted(tmp_path):
    path = dumps.lines(tmp_path / "a", [{"p": None, "s": 1}, {"s": 1}, {"p": "x", "s": 1}])
    found = read(path, columns={"problem": "p", "success": "s"})
    assert found.rollouts.num_rows == 1
    assert said(found, "2 rollouts without a problem")


# damage and hostile values


def test_a_last_line_that_is_cut_off_is_counted_and_one_before_is_an_error(tmp_path):
    good = dumps.verl(1, "p", "o", 1.0)
    cut = json.dumps(good)[:-9]
    found = read(dumps.lines(tmp_path / "1.jsonl", [good, "", cut], end=""))
    assert found.rollouts.num_rows == 1
    assert said(found, "1 last line was left out")
    for broken, reason in [(cut, "no JSON"), ("[1]", "no JSON object"), ("[" * 100_000, "nested too deeply|no JSON")]:
        path = dumps.lines(tmp_path / "1.jsonl", [good, broken, good])
        with pytest.raises(UserError, match=rf"1.jsonl, line 2: it is ({reason})"):
            read(path)
    (tmp_path / "1.jsonl").write_bytes(json.dumps(good).encode() + b'\n{"input": "\xff"}\n' + json.dumps(good).encode())
    with pytest.raises(UserError, match="line 2: it is no UTF-8"):
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
    *(("step", value) for value in (10**30, 1.5, "soon", [1])),
    *(("score", value) for value in ("high", {}, [1.0])),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_a_number_that_is_none_names_file_line_and_value(tmp_path, key, value):
    path = dumps.lines(
        tmp_path / "1.jsonl", [dumps.verl(1, "p", "o", 1.0), dumps.verl(1, "p", "o", 1.0) | {key: value}]
    )
    with pytest.raises(UserError, match=r"1.jsonl, line 2: \w+ is .*, which is no"):
        read(path)


def test_texts_of_any_kind_are_read(tmp_path):
    texts = ["\ud800", "\0", "a\u2028b\x85c", "\U0001d518", "", None, 7, {"a": 1}]
    records = [json.dumps(dumps.verl(1, "p", text, math.inf)) for text in texts]
    found = rows(dumps.lines(tmp_path / "1.jsonl", records))
    assert column(found, "text") == ["\\ud800", "\0", "a\u2028b\x85c", "\U0001d518", "", "", "7", '{"a": 1}']
    assert column(found, "reward") == [math.inf] * len(texts)


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
    with pytest.raises(UserError, match=r"completions_00001\.parquet cannot be read to its end"):
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
    assert [Rule.parse("r > 0.5").outcome(v, "") for v in (1, "0.6", 0.5, True, None, float("nan"))] == [
        "correct", "correct", "incorrect", "correct", None, None,
    ]  # fmt: skip
    assert [Rule.parse("v == pass").outcome(v, "") for v in ("pass", "Pass", "fail")] == [
        "correct",
        "incorrect",
        "incorrect",
    ]
    assert Rule.parse("v != 0").outcome("0.0", "here") == "incorrect"
    with pytest.raises(UserError, match="here: r holds 'x', which cannot be compared"):
        Rule.parse("r >= 1").outcome("x", "here")


def test_a_batch_is_in_memory_and_not_the_file(tmp_path):
    record = json.dumps(dumps.verl(1, "p" * 1000, "o" * 9000, 1.0))
    path = dumps.lines(tmp_path / "1.jsonl", [record] * 2000)  # 20 MB
    tracemalloc.start()
    read(path)
    peak = tracemalloc.get_traced_memory()[1]  # of Python's own objects: a batch, not the file
    tracemalloc.stop()
    assert peak < path.stat().st_size / 2


# the frameworks themselves, where they are installed


def test_verls_own_writers(tmp_path):
    np = pytest.importorskip("numpy")
    classic = pytest.importorskip("verl.trainer.ppo.ray_trainer").RayPPOTrainer
    extra = {"acc": [np.bool_(True), np.bool_(False)], "pred": ["4", "5"], "short": [1]}
    classic._write_generations(["p", "p"], ["a", "b\u2028"], ["4", None], [1.0, -1.0], extra, str(tmp_path), 3)
    found = rows(tmp_path)
    assert column(found, "step", "text", "reward", "outcome", "answer", "member") == [
        (3, "a", 1.0, "correct", "4", 0),
        (3, "b\u2028", -1.0, "incorrect", "5", 1),
    ]


def test_verls_newer_writer(tmp_path):
    base = pytest.importorskip("verl.trainer.ppo.v1.trainer_base")
    trainer = next(t for t in vars(base).values() if "_write_generations" in getattr(t, "__dict__", {}))
    extra = {"uid": ["u_0_0", "u_0_1", "u_1_0"], "reward": [1.0, 1.0, 0.0], "acc": [None, 1.0, 0.0]}
    trainer._write_generations(["p"] * 3, ["a", "b", "c"], ["4"] * 3, [1.0, 1.0, 0.0], extra, str(tmp_path), 3)
    found = rows(tmp_path)
    assert column(found, "split", "text", "outcome") == [("evaluate", "b", "correct"), ("evaluate", "c", "incorrect")]


def test_trls_own_log(tmp_path):
    trl = pytest.importorskip("trl.trainer.grpo_trainer")
    logs = {"prompt": deque([CHAT, CHAT]), "completion": deque([TURNS, TURNS[2:]]), "images": deque()}
    logs |= {
        "rewards": {"acc": deque([1.0, float("nan")])},
        "extra": {"src": deque(["w", None])},
        "advantages": deque([0.5, 0.0]),
    }
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        _metrics=defaultdict(dict),
        accelerator=SimpleNamespace(is_main_process=True),
        log_completions=True,
        num_completions_to_print=0,
        _logs=logs,
        state=SimpleNamespace(global_step=3),
        args=SimpleNamespace(report_to=[], output_dir=str(tmp_path)),
    )
    (tmp_path / "completions").mkdir()
    with (
        patch.object(trl, "is_rich_available", lambda: False),
        patch.object(trl, "super", lambda *a: SimpleNamespace(log=lambda *a: 0), create=True),
    ):
        trl.GRPOTrainer.log(trainer, {})
    found = rows(tmp_path)
    assert column(found, "step", "text", "advantage") == [(3, TURNS_TEXT, 0.5), (3, "Vier: 四\u2028.", 0.0)]
    assert found[0]["reward"] == 1.0
    assert math.isnan(found[1]["reward"])
